"""Responses and errors of the wire contract: consistent with themselves, and always JSON."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from readoff.engine import wire
from readoff.engine.answers import (
    Answer,
    ChoiceAnswer,
    Decision,
    NoulAnswer,
    ScoreAnswer,
    Usage,
    build_answer,
)
from readoff.engine.calibration import probabilities
from readoff.engine.errors import ContextError, NumericsError, QuestionError
from readoff.engine.questions import Choice, Noul, Question, Score

QUESTIONS: dict[str, Question] = {
    "urgent": Noul(instructions="…"),
    "team": Choice(instructions="…", criteria={"billing": "x", "sales": None}),
    "anger": Score(instructions="…", criteria=["Calm", "Mad", "Very angry"]),
}


def decide(**answers: Answer) -> Decision:
    return Decision(answers, Usage(304, 100, 204), 12.5, "ignored")


def test_the_response_of_the_contract() -> None:
    readouts = {"urgent": [0.95, 0.05], "team": [0.88, 0.12], "anger": [0, 0.95, 0.05]}
    answers = {
        name: build_answer(QUESTIONS[name], [0.0] * len(p), p) for name, p in readouts.items()
    }
    response = json.loads(wire.dumps(wire.render_response(decide(**answers), "demo")))
    anger = response["answers"]["anger"]
    assert anger.pop("score") == pytest.approx(1.05, abs=1e-12)
    assert anger.pop("confidence") == pytest.approx(0.925, abs=1e-12)
    assert response["answers"]["team"].pop("confidence") == pytest.approx(0.76, abs=1e-12)
    assert response == {
        "model": "demo",
        "answers": {
            "urgent": {"type": "noul", "noul": 0.95},
            "team": {
                "type": "choice",
                "choice": "billing",
                "probabilities": {"billing": 0.88, "sales": 0.12},
            },
            "anger": {
                "type": "score",
                "legend": {"0": "Calm", "1": "Mad", "2": "Very angry"},
                "probabilities": {"0": 0.0, "1": 0.95, "2": 0.05},
            },
        },
        "usage": {"input_tokens": 304, "output_tokens": 3, "x_cached_tokens": 204},
        "x_latency_ms": 12.5,
    }


@given(st.lists(st.floats(-40, 40), min_size=3, max_size=3), st.floats(0.1, 10))
def test_what_is_returned_agrees_with_itself(z: list[float], temperature: float) -> None:
    p = probabilities(z, None, temperature).tolist()
    names = ["Ünï", "환불", '🙂 \\ "']
    questions: dict[str, Question] = {
        "c": Choice(criteria=dict.fromkeys(names)),
        "s": Score(criteria=[{"label": "Calm"}, ["x"], "z"]),
    }
    decision = decide(**{name: build_answer(q, z, p, 0.9) for name, q in questions.items()})
    answers = json.loads(wire.dumps(wire.render_response(decision, "m")))["answers"]
    choice, score = answers["c"], answers["s"]
    assert list(choice["probabilities"]) == names
    assert choice["probabilities"][choice["choice"]] == max(choice["probabilities"].values())
    mean = sum(int(level) * value for level, value in score["probabilities"].items())
    assert abs(score["score"] - mean) <= 1e-6
    assert all(isinstance(text, str) and text for text in score["legend"].values())
    assert choice["x_legal_mass"] == score["x_legal_mass"] == 0.9
    assert {key for answer in (choice, score) for key in answer} <= {
        *("type", "choice", "score", "legend", "probabilities", "confidence", "x_legal_mass")
    }


@pytest.mark.parametrize(
    "answer",
    [
        NoulAnswer(math.nan, {}),
        ChoiceAnswer("a", {"a": math.inf, "b": 0.0}, 1.0, {}),
        ScoreAnswer(1.0, {"0": 0.5, "1": 0.5}, {}, -math.inf, {}),
        NoulAnswer(0.5, {}, legal_mass=math.nan),
    ],
)
def test_no_nan_and_no_infinity_leaves(answer: Answer) -> None:
    with pytest.raises(NumericsError, match='"q"'):
        wire.render_response(decide(q=answer), "m")


def test_a_latency_that_was_not_measured_is_left_out() -> None:
    decision = Decision({"q": NoulAnswer(0.5, {})}, Usage(1, 1, 0), math.nan, "m")
    assert "x_latency_ms" not in wire.render_response(decision, "m")


def test_errors_of_later_stages_are_422_bodies_too() -> None:
    error = ContextError("9000 tokens, and the limit is 8192.", limit=8192, length=9000)
    assert wire.render_error(error) == {
        "detail": [
            {
                "loc": ["body", "state"],
                "msg": "9000 tokens, and the limit is 8192.",
                "type": "too_long",
            }
        ]
    }
    assert wire.render_error(QuestionError("bad"))["detail"] == [
        {"loc": ["body"], "msg": "bad", "type": "value_error"}
    ]
