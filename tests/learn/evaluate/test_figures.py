"""Rows of an evaluation on cases that can be worked out by hand."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from readoff.bench.records import Given
from readoff.learn.evaluate.contender import Contender, readout, stated
from readoff.learn.evaluate.figures import differences, figure_rows, paired_rows
from readoff.learn.evaluate.slices import Slice
from tests.bench.calibrate.made import by_hand

ROWS = by_hand([[0.0, 0.0]] * 4, [0, 0, 1, 1])
ALL = np.ones(4, np.bool_)
WHOLE = [Slice("all", "all", ALL)]


def sure(*p: float, name: str = "r") -> Contender:
    """Probabilities of the first option."""
    return readout(name, ROWS, np.array([[one, 1.0 - one] for one in p]))


def test_figures_are_those_worked_out_by_hand() -> None:
    [row] = figure_rows([sure(0.8, 0.8, 0.8, 0.4)], WHOLE, ALL, resamples=20)
    assert (row["slice"], row["kind"], row["contender"]) == ("all", "all", "r")
    assert (row["decisions"], row["states"]) == (4, 4)
    assert row["accuracy"] == pytest.approx(3 / 4)
    nll = -(2 * math.log(0.8) + math.log(0.2) + math.log(0.6)) / 4
    assert row["nll"] == pytest.approx(nll)
    assert row["brier"] == pytest.approx((2 * 0.08 + 1.28 + 0.32) / 4)
    # Three answers at 0.8, two of them right; one at 0.6, right.
    assert row["ece"] == pytest.approx(3 / 4 * (0.8 - 2 / 3) + 1 / 4 * 0.4)
    assert sum(one["count"] for one in row["bins"]) == 4
    low, high = row["accuracy_interval"]
    assert 0.0 <= low <= 0.75 <= high <= 1.0


def test_only_what_a_contender_covers_counts() -> None:
    json = stated("j", ROWS, [None, None, Given("1", stated=0.9), Given("0", stated=0.9)])
    [row] = figure_rows([json], WHOLE, ALL, resamples=20)
    assert (row["decisions"], row["accuracy"]) == (2, 0.5)
    assert row["nll"] == pytest.approx(-(math.log(0.9) + math.log(0.1)) / 2)
    nothing = figure_rows([json], [Slice("family", "f", ~json.covered)], ALL, resamples=20)
    assert nothing == []


def test_soft_labels_have_no_calibrated_error_to_compare_with() -> None:
    soft = replace(ROWS, target=np.array([[0.5, 0.5], [1, 0], [0, 1], [0, 1]]))
    one = readout("r", soft, np.array([[0.8, 0.2]] * 4))
    [row] = figure_rows([one], WHOLE, ALL, resamples=20)
    assert row["ece_if_calibrated"] is None
    assert row["ece"] is not None
    [hard] = figure_rows([sure(0.8, 0.8, 0.8, 0.4)], WHOLE, ALL, resamples=20)
    assert 0.0 < hard["ece_if_calibrated"] <= hard["ece_if_calibrated_at_most"]


def test_a_difference_is_paired() -> None:
    # Each is better by the same factor on every row: the difference has no spread, the levels do.
    a, b = sure(0.8, 0.4, 0.1, 0.6, name="a"), sure(0.4, 0.2, 0.2, 0.8, name="b")
    accuracy, nll = differences(a, b, np.array([True, True, False, False]), resamples=50)
    assert nll.value == pytest.approx(-math.log(2))
    assert nll.low == pytest.approx(nll.high)
    assert accuracy.value == 0.5
    [row] = paired_rows([(a, b)], WHOLE, ALL, resamples=50)
    assert (row["a"], row["b"], row["decisions"]) == ("a", "b", 4)
    assert row["accuracy"] == pytest.approx(1 / 2 - 1 / 4)


def test_equal_seeds_give_equal_rows() -> None:
    made = [
        figure_rows([sure(0.8, 0.7, 0.8, 0.4)], WHOLE, ALL, seed=seed, resamples=50)
        for seed in (1, 1)
    ]
    assert made[0] == made[1]
