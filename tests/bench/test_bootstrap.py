"""Bootstrap intervals: their width, their groups, their edges."""

from __future__ import annotations

import math

import numpy as np
import pytest

from readoff.bench.bootstrap import Floats, interval, percentile, reflected, resampled


def mean_of(values: Floats) -> Floats:
    """Resampled means of `values`, each item on its own."""
    groups = np.arange(len(values))
    return resampled(lambda t: np.array([(t * values).sum() / t.sum()]), groups)[:, 0]


def test_the_interval_of_a_mean_is_the_textbook_one() -> None:
    values = np.random.default_rng(1).normal(3.0, 2.0, 400)
    found = percentile(float(values.mean()), mean_of(values))
    half = 1.96 * values.std() / math.sqrt(400)
    assert found.low == pytest.approx(values.mean() - half, abs=0.03)
    assert found.high == pytest.approx(values.mean() + half, abs=0.03)


def test_items_of_one_group_are_drawn_together() -> None:
    """Ten copies of each of 40 items tell no more than the 40: the interval is as wide."""
    values = np.random.default_rng(2).normal(size=40)
    copies, groups = np.repeat(values, 10), np.repeat(np.arange(40), 10)

    def mean(times: Floats) -> Floats:
        return np.array([(times * copies).sum() / times.sum()])

    low, high = interval(resampled(mean, groups)[:, 0])
    alone = interval(mean_of(values))
    assert (low, high) == pytest.approx(alone, abs=1e-9)
    naive = interval(resampled(mean, np.arange(400))[:, 0])
    assert high - low > 2.0 * (naive[1] - naive[0])


def test_the_same_seed_gives_the_same_interval() -> None:
    def total(times: Floats) -> Floats:
        return np.array([times[:3].sum()])

    groups = np.arange(9)
    first, again, other = (resampled(total, groups, seed=s) for s in (4, 4, 5))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)
    assert first.shape == (1000, 1)


def test_a_single_group_has_no_interval() -> None:
    made = resampled(lambda t: np.array([t.sum()]), np.zeros(5, np.int64))
    found = percentile(0.5, made[:, 0])
    assert found.value == 0.5
    assert math.isnan(found.low)
    assert math.isnan(found.high)
    assert math.isnan(reflected(0.5, made[:, 0]).low)


def test_resamples_without_a_value_are_left_out() -> None:
    assert interval(np.array([1.0, np.nan, 1.0])) == (1.0, 1.0)


def test_a_reflected_interval_turns_the_bias_round() -> None:
    values = np.linspace(0.1, 0.3, 1001)  # all of them above the value
    found = reflected(0.1, values)
    assert found.high == pytest.approx(2 * 0.1 - 0.105)
    assert found.low == 0.0
    assert reflected(0.1, values, lowest=-1.0).low == pytest.approx(2 * 0.1 - 0.295)
