"""The two files that a published checkpoint has in a card's place."""

from __future__ import annotations

import json
import string
from pathlib import Path
from typing import Any

import pytest

from readoff.engine.calibration import probabilities
from readoff.engine.card import Card
from readoff.engine.card_fields import CardTemplate, Prior, Temperature
from readoff.engine.errors import CardError
from readoff.engine.labels import alphabets

TEMPERATURES = {"Choice": 1.11, "Score": 1.01, "Noul": 0.82}


def write(folder: Path, **files: Any) -> Path:
    for name, content in files.items():
        text = content if isinstance(content, str) else json.dumps(content)
        (folder / f"{name}.json").write_text(text, encoding="utf-8")
    return folder


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
