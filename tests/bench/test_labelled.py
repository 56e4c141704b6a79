"""Rows of quality: what a card's gate accepts of labelled decisions."""

from __future__ import annotations

import pytest

from readoff.bench.labelled import accepted, rows
from readoff.bench.records import Ask, Given
from readoff.bench.report.facts import quality
from readoff.engine.gate import Gate
from readoff.engine.questions import Choice, Noul

QUESTIONS = {"team": Choice(criteria={"a": None, "b": None}), "due": Noul()}


def made(p: float, due: float, team: str, is_due: str) -> tuple[Ask, dict[str, Given]]:
    ask = Ask("s", QUESTIONS, targets={"team": {team: 1.0}, "due": {is_due: 1.0}})
    given = {
        "team": Given("a" if p >= 0.5 else "b", (p, 1 - p)),
        "due": Given("true" if due >= 0.5 else "false", (due, 1 - due)),
    }
    return ask, given


PAIRS = [
    made(0.9, 0.2, "a", "false"),
    made(0.7, 0.6, "b", "true"),
    made(0.4, 0.95, "b", "false"),
]
ASKS, GIVEN = [pair[0] for pair in PAIRS], [pair[1] for pair in PAIRS]


@pytest.mark.parametrize(
    ("gate", "share", "accuracy"),
    [
        (Gate(0.0), 1.0, 4 / 6),
        (Gate(0.8), 3 / 6, 2 / 3),
        (Gate(0.8, by_type={"noul": None}), 1 / 6, 1.0),
        (Gate(0.8, by_field={"team": 0.6}), 5 / 6, 3 / 5),
        (Gate(None), 0.0, None),
    ],
)
def test_what_a_gate_accepts(gate: Gate, share: float, accuracy: float | None) -> None:
    found = accepted(ASKS, GIVEN, gate)
    assert found["accepted"] == pytest.approx(share)
    assert found["accepted_accuracy"] == (None if accuracy is None else pytest.approx(accuracy))


def test_the_report_has_its_columns_only_with_a_gate() -> None:
    plain = rows("w", "L4", ASKS, GIVEN, 0)
    gated = rows("w", "L4", ASKS, GIVEN, 0, Gate(0.8))
    assert "accepted" not in plain[0]
    assert gated[0]["accepted"] == 0.5
    (table,), (wider,) = quality(plain), quality(gated)
    assert len(wider.head) == len(table.head) + 2
    assert wider.rows[0][-2:] == ["0.500", "0.667"]
