"""The decision card and the two files it replaces."""

from __future__ import annotations

import json
import os
import string
from pathlib import Path
from typing import Any

import pytest

from readoff.engine.calibration import probabilities
from readoff.engine.card import Card
from readoff.engine.card_fields import CardTemplate, Digests, Prior, Temperature
from readoff.engine.errors import CardError
from readoff.engine.labels import LabelSpace, alphabets

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


def write(folder: Path, **files: Any) -> Path:
    for name, content in files.items():
        text = content if isinstance(content, str) else json.dumps(content)
        (folder / f"{name}.json").write_text(text, encoding="utf-8")
    return folder


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
    with pytest.raises(CardError, match=r'prior of "team" is for 2 options, .* has 3'):
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
    write(tmp_path, decision=f'{{"version": 1, "gate": {{"accept": {text}}}}}')
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
    write(tmp_path, decision=text)
    with pytest.raises(CardError, match="decision"):
        Card.load(tmp_path)


def test_a_key_that_is_there_twice(tmp_path: Path) -> None:
    write(tmp_path, decision='{"version": 1, "temperature": {"noul": 2.0, "noul": 1.0}}')
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


TEMPERATURES = {"Choice": 1.11, "Score": 1.01, "Noul": 0.82}


@pytest.mark.parametrize(
    "calibration",
    [
        TEMPERATURES,
        {kind.lower(): value for kind, value in TEMPERATURES.items()},
        {kind.upper(): value for kind, value in TEMPERATURES.items()},
        {"temperature": TEMPERATURES, "ece": 0.02},
        {"temperatures": TEMPERATURES, "fitted_on": "validation"},
        {kind: {"temperature": value, "nll": 0.3} for kind, value in TEMPERATURES.items()},
    ],
)
@pytest.mark.parametrize(
    "label_space",
    [
        {"Choice": [*map(chr, range(65, 91))], "Score": [*"0123456789"], "Noul": ["True", "False"]},
        {"labels": {"choice": "A-Z", "score": "0-9", "noul": ["False", "True"]}},
        {
            "choice": {chr(i): i for i in range(65, 91)},
            "score": {str(i): i for i in range(10)},
            "noul": {"False": 1, "True": 2},
        },
        {
            "choice": {str(i): chr(65 + i) for i in range(26)},
            "score": {str(i): str(i) for i in range(10)},
            "noul": {"false": "False", "true": "True"},
        },
    ],
)
def test_a_published_checkpoint_is_imported(
    tmp_path: Path, calibration: Any, label_space: Any
) -> None:
    card = Card.from_published(write(tmp_path, calibration=calibration, label_space=label_space))
    for kind, temperature in TEMPERATURES.items():
        assert card.temperature_for(kind.lower(), "any", 2) == temperature
    assert alphabets(card.labels.choice) == (tuple(string.ascii_uppercase),)
    assert alphabets(card.labels.score) == (tuple(string.digits),)
    assert card.labels.noul == ("True", "False")
    card.save(tmp_path)
    assert Card.load(tmp_path) == card


def test_the_published_form_of_a_card_is_read_back(tmp_path: Path) -> None:
    card = Card(temperature=Temperature(choice=1.11, score=0.97, noul=0.85))
    files = card.to_published()
    assert sorted(files) == ["calibration.json", "label_space.json"]
    for name, content in files.items():
        (tmp_path / name).write_text(json.dumps(content))
    assert Card.from_published(tmp_path) == card


@pytest.mark.parametrize(
    "card",
    [
        Card(temperature=Temperature(by_field={"team": 2.0})),
        Card(temperature=Temperature(by_options={"choice:3": 2.0})),
        Card(prior=Prior(by_field={"team": (0.0, 1.0)})),
        Card(debias="prior"),
        Card(template=CardTemplate(order="question-first")),
    ],
)
def test_what_the_published_form_cannot_say(card: Card) -> None:
    assert card.to_published() == {}


def test_imported_temperatures_are_applied(tmp_path: Path) -> None:
    card = Card.from_published(write(tmp_path, calibration={"Choice": 2}))
    p = probabilities(
        [2, 0], card.prior_for("choice", None, 2), card.temperature_for("choice", None, 2)
    )
    assert p[0] == pytest.approx(0.731, abs=5e-4)
    assert card.temperature_for("score", None, 3) == 1.0


def test_a_folder_without_either_file_gives_the_default(tmp_path: Path) -> None:
    assert Card.from_published(tmp_path) == Card.default()


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"calibration": {"T": 1.1}}, "names none of Choice"),
        ({"calibration": {"Choice": 1.1, "choice": 1.2}}, "choice twice"),
        ({"calibration": {"Choice": 1.11, "Scor": 9.0, "temperature_noul": 0.82}}, '"Scor"'),
        ({"calibration": {"temperature": {"Choice": 1.1, "Scor": 9.0}}}, '"Scor"'),
        ({"calibration": {"temperature": {"Choice": 1.1}, "Score": 9.0}}, '"Score"'),
        ({"calibration": {"temperature": {"noul": 1}, "temperatures": {}}}, '"temperatures"'),
        ({"calibration": {"Choice": {"temperature": 1.1, "T": 2.0}}}, '"T"'),
        ({"calibration": '{"Choice": 1.1, "Choice": 1.2}'}, r'calibration\.json .*"Choice" twice'),
        ({"label_space": {"Choice": ["A", "B"], "Scor": ["0"]}}, r'label_space\.json .*"Scor"'),
        ({"calibration": {"Choice": "1.1"}}, "choice temperature"),
        ({"calibration": {"Choice": 0}}, "choice temperature"),
        ({"calibration": {"Choice": {"scale": 1}}}, "without a temperature"),
        ({"calibration": []}, "JSON object"),
        ({"calibration": "{"}, "calibration.json is not JSON"),
        ({"label_space": {"Rank": ["A"]}}, "names none of Choice"),
        ({"label_space": {"Choice": 3}}, "choice labels"),
        ({"label_space": {"Choice": ["A", "A"]}}, "repeat"),
        ({"label_space": {"Noul": ["True"]}}, "noul"),
    ],
)
def test_published_files_that_cannot_be_understood(
    tmp_path: Path, files: Any, message: str
) -> None:
    with pytest.raises(CardError, match=message):
        Card.from_published(write(tmp_path, **files))
