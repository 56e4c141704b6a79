"""Answers are computed from exactly the probabilities they return."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from readoff.engine.answers import (
    ChoiceAnswer,
    Decision,
    NoulAnswer,
    ScoreAnswer,
    Usage,
    build_answer,
)
from readoff.engine.calibration import choice_confidence, probabilities, score_confidence
from readoff.engine.errors import NumericsError
from readoff.engine.questions import Choice, Noul, Score

CHOICE = Choice(criteria={"billing": "Pay", "sales": None, "其他": None})
SCORE = Score(criteria=["Calm", {"label": "Frustrated"}, "Very angry"])
LOGITS = st.lists(st.floats(-50, 50), min_size=3, max_size=3)


@given(LOGITS, st.floats(0.1, 10))
def test_the_choice_is_the_most_probable_option(z: list[float], temperature: float) -> None:
    p = probabilities(z, [0.0, 3.0, -3.0], temperature)
    answer = build_answer(CHOICE, z, p.tolist(), 0.5)
    assert isinstance(answer, ChoiceAnswer)
    assert list(answer.probabilities) == ["billing", "sales", "其他"]
    assert answer.probabilities[answer.choice] == max(answer.probabilities.values())
    assert answer.confidence == choice_confidence(list(answer.probabilities.values()))
    assert list(answer.logits.values()) == z
    assert answer.legal_mass == 0.5


@given(LOGITS, st.floats(0.1, 10))
def test_the_score_is_the_mean_level_of_the_probabilities(z: list[float], t: float) -> None:
    answer = build_answer(SCORE, z, probabilities(z, None, t).tolist())
    assert isinstance(answer, ScoreAnswer)
    mean = sum(int(level) * p for level, p in answer.probabilities.items())
    assert abs(answer.score - mean) <= 1e-6
    assert answer.confidence == score_confidence(list(answer.probabilities.values()))
    assert answer.legal_mass is None


def test_the_legend_says_what_each_level_means() -> None:
    answer = build_answer(SCORE, [0, 0, 0], [0.2, 0.3, 0.5])
    assert isinstance(answer, ScoreAnswer)
    assert answer.legend == {"0": "Calm", "1": "label: Frustrated", "2": "Very angry"}


def test_a_noul_is_the_probability_of_true() -> None:
    answer = build_answer(Noul(), [2.0, 0.0], [0.88, 0.12])
    assert answer == NoulAnswer(noul=0.88, logits={"true": 2.0, "false": 0.0})


def test_ties_go_to_the_first_option() -> None:
    answer = build_answer(CHOICE, [0, 0, 0], [1 / 3] * 3)
    assert isinstance(answer, ChoiceAnswer)
    assert answer.choice == "billing"
    assert answer.confidence == 0.0


def test_thirty_options_have_thirty_probabilities() -> None:
    question = Choice(criteria={f"option {i}": None for i in range(30)})
    z = np.linspace(-60, 60, 30)
    answer = build_answer(question, z.tolist(), probabilities(z).tolist())
    assert isinstance(answer, ChoiceAnswer)
    assert len(answer.probabilities) == 30
    assert all(map(math.isfinite, answer.probabilities.values()))


def test_numbers_are_plain_floats_whatever_came_in() -> None:
    answer = build_answer(CHOICE, np.float32([1, 2, 3]), np.float32([0.25, 0.25, 0.5]))  # type: ignore[arg-type]
    assert isinstance(answer, ChoiceAnswer)
    assert {type(v) for v in (*answer.probabilities.values(), *answer.logits.values())} == {float}


@pytest.mark.parametrize(
    ("z", "p", "mass"),
    [
        ([math.nan, 0, 0], [0.2, 0.3, 0.5], None),
        ([-math.inf] * 3, [0.2, 0.3, 0.5], None),
        ([0, 0, 0], [math.nan] * 3, None),
        ([0, 0, 0], [0.2, 0.3, math.inf], None),
        ([0, 0, 0], [0.2, 0.3, 0.4], None),
        ([0, 0, 0], [-0.5, 0.5, 1.0], None),
        ([0, 0, 0], [0.5, 0.5], None),
        ([0, 0], [0.2, 0.3, 0.5], None),
        ([0, 0, 0], [0.2, 0.3, 0.5], math.nan),
    ],
)
def test_what_is_no_distribution_is_refused(z: Any, p: Any, mass: Any) -> None:
    for question in (CHOICE, SCORE):
        with pytest.raises(NumericsError):
            build_answer(question, z, p, mass)


def test_a_decision_is_a_mapping_with_extras() -> None:
    answers = {"b": NoulAnswer(0.5, {}), "a": NoulAnswer(0.25, {})}
    decision = Decision(answers, Usage(10, 7, 3), 1.5, "demo")
    assert list(decision) == ["b", "a"]
    assert dict(decision) == answers
    assert decision == answers
    assert decision["a"].type == "noul"
    assert "c" not in decision
    assert len(decision) == 2
    assert (decision.usage.cached_tokens, decision.latency_ms, decision.model) == (3, 1.5, "demo")
    with pytest.raises(dataclasses.FrozenInstanceError):
        decision.model = "other"  # type: ignore[misc]
