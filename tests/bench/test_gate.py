"""The gates: what passes, what is red, and what the error says."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest

from readoff.bench.gate import FP32, GateError, agreement, compare, compare_tokens, measured
from readoff.bench.records import Given, Run
from readoff.bench.rungs.strong_json import Transcript
from tests.bench.asks import ask

ASK = ask(names="team due")


def run(team: Sequence[float], due: float = 0.9, value: str | None = None) -> Run:
    options = ("sale", "sales", "tech")
    best = value or options[max(range(3), key=team.__getitem__)]
    truth = "true" if due > 0.5 else "false"
    given = {"team": Given(best, tuple(team)), "due": Given(truth, (due, 1 - due))}
    return Run(given, 1.0, 10, 0)


def test_equal_answers_pass() -> None:
    gate = compare([ASK], "L2", [run((0.2, 0.5, 0.3))], [run((0.2, 0.5, 0.3))], 1e-5)
    assert (gate.ok, gate.agreement, gate.max_dp, gate.bound) == (True, 1.0, 0.0, 1e-5)
    assert gate.against == "L2"


def test_a_difference_beyond_the_bound_is_red() -> None:
    gate = compare([ASK], "L2", [run((0.2, 0.5, 0.3))], [run((0.2, 0.49, 0.31))], 1e-3)
    assert not gate.ok
    assert gate.agreement == 1.0
    assert gate.max_dp == pytest.approx(0.01)
    assert "request 0, question 'team': the probabilities moved, Δp 0.01" in gate.note


def test_a_near_tie_may_flip_within_the_bound_only() -> None:
    lower, upper = run((0.1, 0.451, 0.449)), run((0.1, 0.449, 0.451))
    assert compare([ASK], "L2", [lower], [upper], 3e-3).ok
    assert compare([ASK], "L2", [lower], [upper], 3e-3).agreement == 0.5
    gate = compare([ASK], "L2", [lower], [upper], 1e-3)
    assert not gate.ok
    assert "'sales' became 'tech'" in gate.note


def test_the_choice_must_be_the_likeliest_option() -> None:
    """Labels shifted in the name alone leave every probability where it was."""
    lower = run((0.2, 0.5, 0.3))
    gate = compare([ASK], "L2", [lower], [run((0.2, 0.5, 0.3), value="sale")], 1e-1)
    assert not gate.ok
    assert "'sale' is chosen where 'sales' is likeliest" in gate.note


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_numbers_that_are_none_are_red(bad: float) -> None:
    upper = Run({**run((0.2, 0.5, 0.3)).given, "due": Given("true", (bad, 0.1))}, 1.0, 1, 0)
    assert not compare([ASK], "L2", [run((0.2, 0.5, 0.3))], [upper], 0.5).ok
    later = Run({**run((0.2, 0.5, 0.3)).given, "due": Given("true", (0.9, bad))}, 1.0, 1, 0)
    assert not compare([ASK], "L2", [run((0.2, 0.5, 0.3))], [later], 0.5).ok


def test_a_missing_answer_is_red() -> None:
    lower = run((0.2, 0.5, 0.3))
    for given in ({"team": lower.given["team"]}, {**lower.given, "due": Given("true")}):
        gate = compare([ASK], "L2", [lower], [Run(given, 1.0, 1, 0)], 0.5)
        assert not gate.ok
        assert "no probabilities" in gate.note


def test_bounds() -> None:
    assert FP32.ours == 1e-5
    assert FP32.transformers > FP32.ours
    bounds = measured(0.01, 20)
    assert bounds.ours == pytest.approx(0.015)
    assert bounds.transformers == pytest.approx(0.025)
    assert measured(0.0, 20).ours > 0


def test_tokens_must_be_the_same() -> None:
    one = {"team": Transcript((1, 2, 3), (0.9, 0.8, 0.7))}
    assert compare_tokens("L1", [one], [one], 1e-5).ok
    other = {"team": Transcript((1, 5, 3), (0.9, 0.8, 0.7))}
    gate = compare_tokens("L1", [one], [other], 1e-5)
    assert (gate.ok, gate.agreement) == (False, 0.0)
    assert "token 1 differs" in gate.note
    for upper in ({"team": Transcript((1, 2), (0.9, 0.8))}, {}):
        assert not compare_tokens("L1", [one], [upper], 0.4).ok


def test_tokens_may_part_at_a_near_tie() -> None:
    one = {"team": Transcript((1, 2, 3), (0.9, 0.01, 0.7))}
    other = {"team": Transcript((1, 5, 9), (0.9, 0.005, 0.8))}
    gate = compare_tokens("L1", [one], [other], 0.01)
    assert gate.ok
    assert "near tie at token 1" in gate.note
    assert not compare_tokens("L1", [one], [other], 0.001).ok


def test_agreement_is_told_and_never_judged() -> None:
    gate = agreement([ASK], "L2t", [run((0.2, 0.5, 0.3))], [run((0.6, 0.3, 0.1))])
    assert (gate.ok, gate.agreement, gate.max_dp, gate.bound) == (True, 0.5, None, None)


def test_the_error_names_the_rung() -> None:
    gate = compare([ASK], "L2", [run((0.2, 0.5, 0.3))], [run((0.9, 0.05, 0.05))], 1e-5)
    error = GateError("L3", gate)
    assert error.rung == "L3"
    assert str(error).startswith("Red gate: rung L3 doesn't answer as L2 does")
    assert str(error).endswith("No speed is reported.")
