"""The gate: published rule, refinements, the card's entry, and what is refused."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from readoff.engine import wire
from readoff.engine.answers import Answer, Decision, NoulAnswer, Usage, Verdict, build_answer
from readoff.engine.card import Card
from readoff.engine.errors import CardError
from readoff.engine.gate import Gate, choose_gate, top_probability
from readoff.engine.questions import Choice, Score

CHOICE = Choice(criteria={"billing": None, "sales": None})
SCORE = Score(criteria=["Calm", "Cross", "Furious"])


def choice(p: float) -> Answer:
    return build_answer(CHOICE, [1.0, 0.0], [p, 1.0 - p])


def noul(p: float) -> Answer:
    return NoulAnswer(p, {"true": 1.0, "false": 0.0})


def test_the_largest_probability_decides_and_equal_is_enough() -> None:
    gate = Gate(0.75)
    assert gate.accepts(choice(0.75))
    assert not gate.accepts(choice(0.7499))
    assert gate.accepts(choice(0.25)), "the other option has 0.75"
    score = build_answer(SCORE, [0.0, 0.0, 0.0], [0.1, 0.8, 0.1])
    assert (top_probability(score), gate.accepts(score)) == (0.8, True)


@pytest.mark.parametrize(("p", "accepted"), [(0.9, True), (0.1, True), (0.5, False)])
def test_a_noul_is_as_sure_as_its_surer_side(p: float, accepted: bool) -> None:
    assert Gate(0.9).accepts(noul(p)) is accepted


def test_a_field_counts_before_its_type_and_that_before_the_rest() -> None:
    gate = Gate(0.9, by_type={"choice": 0.7}, by_field={"team": 0.6, "never": None})
    assert gate.threshold_for("choice", "team") == 0.6
    assert gate.threshold_for("choice", "other") == 0.7
    assert gate.threshold_for("noul", None) == 0.9
    assert gate.accepts(choice(0.65), "team")
    assert not gate.accepts(choice(0.65), "other")
    assert not gate.accepts(choice(1.0), "never")


def test_none_accepts_nothing_and_zero_accepts_everything() -> None:
    assert not Gate(None).accepts(choice(1.0))
    assert Gate(0.0).accepts(choice(0.5))
    assert Gate(1).accepts(choice(1.0))


@pytest.mark.parametrize(
    "gate", [Gate(0.8), Gate(None), Gate(0.9, {"noul": 0.5}, {"a": None}, {"rule": "cost"})]
)
def test_a_card_keeps_its_gate(gate: Gate, tmp_path: Path) -> None:
    Card(gate=gate.to_json()).save(tmp_path)
    assert choose_gate(None, Card.load(tmp_path)) == gate


def test_what_is_given_counts_before_the_card() -> None:
    card = Card(gate={"threshold": 0.8})
    assert choose_gate(None, Card.default()) is None
    assert choose_gate(0.3, card) == Gate(0.3)
    assert choose_gate(Gate(0.4), card) == Gate(0.4)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ([], "must be an object"),
        ({"accept": 0.9}, 'an entry "accept"'),
        ({"by_type": {}}, 'no "threshold"'),
        ({"threshold": True}, "a number from 0 to 1"),
        ({"threshold": "0.9"}, "a number from 0 to 1"),
        ({"threshold": 1.01}, "a number from 0 to 1"),
        ({"threshold": math.nan}, "a number from 0 to 1"),
        ({"threshold": 0.9, "by_type": {"text": 0.5}}, 'a type "text"'),
        ({"threshold": 0.9, "by_type": {"noul": -0.1}}, 'threshold of "noul"'),
        ({"threshold": 0.9, "by_field": {1: 0.5}}, 'names in the gate\'s "by_field" are text'),
        ({"threshold": 0.9, "by_type": {1: 0.5, "x": 1}}, 'names in the gate\'s "by_type"'),
        ({"threshold": np.float32("nan")}, "a number from 0 to 1"),
        ({"threshold": np.True_}, "a number from 0 to 1"),
        ({"threshold": 0.9, "by_field": [0.5]}, '"by_field" must be an object'),
        ({"threshold": 0.9, "fitted": 3}, '"fitted" must be an object'),
    ],
)
def test_a_gate_that_makes_no_sense_is_refused(content: Any, message: str) -> None:
    with pytest.raises(CardError, match=message):
        Gate.parse(content)


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
def test_numbers_of_numpy_are_numbers(kind: Any) -> None:
    gate = Gate(kind(0.5), by_field={"team": kind(0.25)})
    assert gate == Gate(0.5, by_field={"team": 0.25})
    assert json.dumps(gate.to_json())
    assert choose_gate(kind(0.5), Card()) == Gate(0.5)


def test_the_response_says_what_was_accepted_and_who_answered() -> None:
    answers = {"a": choice(0.9), "b": noul(0.5), "c": noul(0.6), "d": noul(0.6)}
    verdicts = {
        "a": Verdict(True),
        "b": Verdict(False, "escalation"),
        "c": Verdict(False, failure="TimeoutError: late"),
    }
    decision = Decision(answers, Usage(3, 3, 0), 1.0, "m", verdicts)
    found: Any = json.loads(wire.dumps(wire.render_response(decision, "m")))["answers"]
    extras = {
        name: {k: v for k, v in answer.items() if k.startswith("x_")}
        for name, answer in found.items()
    }
    assert extras == {
        "a": {"x_accept": True, "x_given_by": "model"},
        "b": {"x_accept": False, "x_given_by": "escalation"},
        "c": {
            "x_accept": False,
            "x_given_by": "model",
            "x_escalation_failure": "TimeoutError: late",
        },
        "d": {},
    }


def test_without_a_gate_the_response_is_as_it_was() -> None:
    decision = Decision({"a": noul(0.9)}, Usage(3, 3, 0), 1.0, "m")
    assert '"x_accept"' not in wire.dumps(wire.render_response(decision, "m"))
