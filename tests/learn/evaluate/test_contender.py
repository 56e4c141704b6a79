"""Contenders: what stands behind a stated confidence, and what isn't there."""

from __future__ import annotations

import math

import numpy as np
import pytest

from readoff.bench.records import Given
from readoff.learn.evaluate.contender import in_order, readout, stated, taken
from tests.bench.calibrate.made import by_hand

ROWS = by_hand([[0.0] * 4, [0.0] * 4, [0.0] * 2, [0.0] * 3], [1, 0, 1, 2])


def given(*answers: Given | None) -> list[Given | None]:
    return list(answers)


def test_the_rest_of_a_stated_confidence_is_shared_by_the_other_options() -> None:
    made = stated("j", ROWS, given(Given("1", stated=0.7), Given("1", stated=0.7), None, None))
    assert made.outcomes.confidence[:2].tolist() == [0.7, 0.7]
    assert made.outcomes.correct[:2].tolist() == [1.0, 0.0]
    assert made.outcomes.log_loss[0] == pytest.approx(-math.log(0.7))
    assert made.outcomes.log_loss[1] == pytest.approx(-math.log(0.1))
    assert made.outcomes.brier[0] == pytest.approx(0.3**2 + 3 * 0.1**2)
    assert made.outcomes.brier[1] == pytest.approx(0.7**2 + 2 * 0.1**2 + 0.9**2)


def test_a_missing_confidence_is_that_of_a_guess() -> None:
    made = stated("j", ROWS, given(None, None, Given("1"), Given("0")))
    assert made.outcomes.confidence[2:].tolist() == pytest.approx([1 / 2, 1 / 3])
    assert made.outcomes.log_loss[2:].tolist() == pytest.approx([math.log(2), math.log(3)])


def test_an_unusable_answer_is_wrong_with_the_confidence_stated() -> None:
    made = stated("j", ROWS, given(Given(None, stated=0.9, failure="x"), None, Given(None), None))
    assert made.unusable == 2
    assert made.outcomes.correct[[0, 2]].tolist() == [0.0, 0.0]
    assert made.outcomes.confidence[[0, 2]].tolist() == [0.9, 0.5]
    assert made.outcomes.log_loss[[0, 2]].tolist() == pytest.approx([math.log(4), math.log(2)])
    assert made.outcomes.answered.tolist() == [False] * 4


def test_certainty_that_is_wrong_is_floored_and_told() -> None:
    made = stated("j", ROWS, given(Given("0", stated=1.0), None, None, None))
    assert made.outcomes.log_loss[0] == pytest.approx(-math.log(1e-12))
    assert made.outcomes.floored.tolist() == [True, False, False, False]


def test_what_was_not_asked_is_not_covered() -> None:
    made = stated("j", ROWS, given(None, Given("0", stated=0.5), None, Given("2", stated=0.5)))
    assert made.covered.tolist() == [False, True, False, True]
    assert len(taken(made.outcomes, made.covered)) == 2
    assert readout("r", ROWS, np.full((4, 4), 0.25)).covered.all()


def test_taken_numbers_requests_anew() -> None:
    whole = readout("r", ROWS, np.full((4, 4), 0.25)).outcomes
    assert taken(whole, np.array([False, True, False, True])).group.tolist() == [0, 1]


def test_answers_find_their_places() -> None:
    places = [(0, "a"), (0, "b"), (1, "a"), (2, "a")]
    one, two, three = Given("x"), Given("y"), Given("z")
    found = in_order(places, [1, 2, 3], [{"b": one}, {"a": two}, {"a": three}])
    assert found == [None, one, two, three]
