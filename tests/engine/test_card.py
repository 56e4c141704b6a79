"""The decision card."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from readoff.engine.card import Card
from readoff.engine.card_fields import CardTemplate, Digests, Prior, Temperature
from readoff.engine.errors import CardError, QuestionError
from readoff.engine.labels import LabelSpace

FULL = Card(
    template=CardTemplate(id="default", digest="aa", order="question-first"),
    labels=LabelSpace(choice="A-Z", noul=("Yes", "No")),
    temperature=Temperature(
        choice=1.11,
        score=1.01,
        noul=0.82,
        by_field={"team": 2.0, "队": 3},
        by_options={"choice:2": 1.5, "choice:3-10": 1.6, "choice:2-255": 1.7},
    ),
    prior=Prior(by_field={"team": (0.5, -0.5)}, by_options={"noul:2": (1, 0)}),
    gate={"accept": 0.9},
    digests=Digests(weights="w", adapter="a", tokenizer="t"),
)

DESIGN = {
    "version": 1,
    "template": {"id": "default", "digest": None, "order": "state-first"},
    "labels": {"choice": "A-Z|AA-ZZ", "score": "0-9", "noul": ["True", "False"]},
    "temperature": {"choice": 1.0, "score": 1.0, "noul": 1.0, "by_field": {}, "by_options": {}},
    "prior": {},
    "gate": {},
    "digests": {"weights": None, "adapter": None, "tokenizer": None},
}


def test_the_default_card_is_the_one_of_the_design() -> None:
    assert Card.default().to_json() == DESIGN
    assert Card.parse(DESIGN) == Card.default() == Card.parse({"version": 1})


@pytest.mark.parametrize("card", [Card.default(), FULL])
def test_cards_survive_a_file(tmp_path: Path, card: Card) -> None:
    card.save(tmp_path)
    assert Card.load(tmp_path) == Card.load(tmp_path / "decision.json") == card
    card.save(tmp_path / "other.json")
    assert Card.load(tmp_path / "other.json") == card
    assert sorted(path.name for path in tmp_path.iterdir()) == ["decision.json", "other.json"]


def test_a_save_that_fails_leaves_the_old_card(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    FULL.save(tmp_path)

    def fail(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="disk full"):
        Card.default().save(tmp_path)
    assert Card.load(tmp_path) == FULL
    assert [path.name for path in tmp_path.iterdir()] == ["decision.json"]


def test_a_gate_that_is_not_json_is_refused(tmp_path: Path) -> None:
    for gate in ({"a": float("nan")}, {"a": {1, 2}}):
        with pytest.raises(CardError, match="gate"):
            Card(gate=gate).save(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_rotations_are_written_where_they_mean_something(tmp_path: Path) -> None:
    for mode in ("rotate", "both"):
        card = Card(debias=mode, rotations=7)
        assert card.to_json()["rotations"] == 7
        card.save(tmp_path)
        assert Card.load(tmp_path) == card
        assert "rotations" not in Card(debias=mode).to_json()
    for mode in ("none", "prior"):
        card = Card(debias=mode, rotations=7)  # type: ignore[arg-type]
        assert (card.rotations, Card.parse(card.to_json())) == (4, card)
        assert "rotations" not in card.to_json()


@pytest.mark.parametrize("rotations", [0, -1, True, 2.0, "4", None])
def test_rotations_that_are_none_are_refused(rotations: Any) -> None:
    with pytest.raises(CardError, match='"rotations" must be 1 or more'):
        Card.parse({"version": 1, "debias": "rotate", "rotations": rotations})


def test_the_most_specific_temperature_wins() -> None:
    assert FULL.temperature_for("choice", "team", 2) == 2.0
    assert FULL.temperature_for("choice", "other", 2) == 1.5
    assert FULL.temperature_for("choice", None, 3) == 1.6
    assert FULL.temperature_for("choice", None, 10) == 1.6
    assert FULL.temperature_for("choice", None, 11) == 1.7
    assert FULL.temperature_for("choice", None, 256) == 1.11
    assert FULL.temperature_for("score", "other", 2) == 1.01
    assert FULL.temperature_for("noul", None, 2) == 0.82


def test_priors_are_found_and_default_to_zeros() -> None:
    assert FULL.prior_for("choice", "team", 2) == (0.5, -0.5)
    assert FULL.prior_for("noul", None, 2) == (1.0, 0.0)
    assert FULL.prior_for("choice", None, 4) == (0.0, 0.0, 0.0, 0.0)
    with pytest.raises(QuestionError, match=r'prior of "team" is for 2 options, .* has 3'):
        FULL.prior_for("choice", "team", 3)


@pytest.mark.parametrize(
    "value",
    [0, -1, 1e-46, 1e39, "1.0", True, None, [1], {}, float("nan"), float("inf"), 10**400],
)
def test_a_temperature_that_cannot_be_applied_is_refused(value: Any) -> None:
    for kind in ("choice", "score", "noul"):
        with pytest.raises(CardError, match=f"{kind} temperature"):
            Card.parse({"version": 1, "temperature": {kind: value}})
    for table, key in (("by_field", "team"), ("by_options", "choice:3")):
        with pytest.raises(CardError, match=key):
            Card.parse({"version": 1, "temperature": {table: {key: value}}})


@pytest.mark.parametrize("text", ["NaN", "Infinity", "-Infinity"])
def test_numbers_that_are_not_json_are_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "decision.json").write_text(f'{{"version": 1, "gate": {{"accept": {text}}}}}')
    with pytest.raises(CardError, match=text):
        Card.load(tmp_path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({}, "version None"),
        ({"version": 2}, "version 2"),
        ({"version": 1, "temperatur": {}}, '"temperatur"'),
        ({"version": 1, "temperature": {"Choice": 1.1}}, '"Choice"'),
        ({"version": 1, "temperature": 1.1}, '"temperature" must be an object'),
        ({"version": 1, "temperature": {"by_field": []}}, "by_field"),
        ({"version": 1, "temperature": {"by_options": {"3": 1.1}}}, '"3" names no number'),
        ({"version": 1, "temperature": {"by_options": {"choice:9-3": 1.1}}}, '"choice:9-3"'),
        ({"version": 1, "template": {"order": "sideways"}}, "sideways"),
        ({"version": 1, "template": {"digest": 3}}, '"digest" must be text'),
        ({"version": 1, "template": {"name": "x"}}, '"name"'),
        ({"version": 1, "digests": {"weight": "x"}}, '"weight"'),
        ({"version": 1, "digests": []}, '"digests" must be an object'),
        ({"version": 1, "labels": {"choice": "Z-A"}}, "Z-A"),
        ({"version": 1, "prior": {"team": [1]}}, '"team"'),
        ({"version": 1, "prior": {"by_field": {"team": 1}}}, "array of numbers"),
        ({"version": 1, "prior": {"by_field": {"team": [1, "2"]}}}, "'2'"),
        ({"version": 1, "prior": {"by_field": {"team": [True]}}}, "True"),
        ({"version": 1, "prior": {"by_options": {"choice:3": [1, 2]}}}, "holds 2 numbers"),
        ({"version": 1, "prior": {"by_options": {"choice:2-3": [1, 2]}}}, "holds 2 numbers"),
    ],
)
def test_what_cannot_be_understood_is_refused(content: Any, message: str) -> None:
    with pytest.raises(CardError, match=message):
        Card.parse(content)


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '"x"', "[" * 100_000])
def test_files_that_hold_no_card(tmp_path: Path, text: str) -> None:
    (tmp_path / "decision.json").write_text(text)
    with pytest.raises(CardError, match="decision"):
        Card.load(tmp_path)


def test_a_key_that_is_there_twice(tmp_path: Path) -> None:
    twice = '{"version": 1, "temperature": {"noul": 2.0, "noul": 1.0}}'
    (tmp_path / "decision.json").write_text(twice)
    with pytest.raises(CardError, match=r'decision\.json has the key "noul" twice'):
        Card.load(tmp_path)


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(CardError, match="No such file"):
        Card.load(tmp_path / "missing.json")


def test_a_card_of_another_model_is_refused() -> None:
    FULL.check(weights="w", adapter="a", tokenizer="t", template="aa")
    FULL.check()
    for name in ("weights", "adapter", "tokenizer", "template"):
        for other in ("x", None):
            with pytest.raises(CardError, match=f"its {name} digest"):
                FULL.check(**{name: other})
    Card.default().check(weights="w", adapter=None, tokenizer="t", template="x")
