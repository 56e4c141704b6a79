"""The adapter that readoff brings along: whole, small, and of one piece with its card's figures."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from readoff.adapters import DEMO
from readoff.engine.answers import ChoiceAnswer
from readoff.engine.card import Card
from readoff.engine.checkpoint import digest_files
from readoff.engine.engine import Engine
from readoff.engine.fetch import DEMO as WEIGHTS
from readoff.engine.lora import CONFIG, RECORD
from readoff.engine.lora import WEIGHTS as MATRICES
from readoff.engine.questions import Choice
from readoff.engine.source import DEMO_BASE, resolve

LARGEST = 20_000_000
"""Bytes."""

MESSAGES = {
    "what's left on my checking account": "balance",
    "move 300 dollars from savings to checking": "transfer",
    "somebody stole my wallet, block the card now": "lost card",
    "how many euros do I get for 50 dollars": "exchange rate",
    "my new phone number is 555 0101": "contact details",
    "please send 20 to my landlord": "transfer",
    "how much money do i have": "balance",
    "is the pound cheap at the moment": "exchange rate",
}
"""Plain ones, in no data set: that the adapter is applied at all shows here, and no more."""


def record(name: str) -> Any:
    return json.loads((DEMO / name).read_text(encoding="utf-8"))


def test_the_published_layout_and_its_size() -> None:
    names = {path.name for path in DEMO.iterdir()}
    published = {CONFIG, MATRICES, "calibration.json", "label_space.json", "decision.json"}
    assert names >= published | {"README.md", RECORD, "data.json", "curves.png"}
    assert sum(path.stat().st_size for path in DEMO.iterdir()) < LARGEST


def test_all_records_are_of_these_weights() -> None:
    digest = digest_files([DEMO / CONFIG, DEMO / MATRICES])
    found = Card.load(DEMO)
    assert (found.digests.weights, found.digests.adapter) == (WEIGHTS.sha256, digest)
    assert record(RECORD)["facts"]["base"] == WEIGHTS.sha256
    assert record(RECORD)["digests"] == {"adapter": digest}
    assert record(CONFIG)["base_model_name_or_path"] == DEMO_BASE
    assert record(RECORD)["facts"]["stored"] == "fp16"


def test_the_published_files_say_what_the_card_says() -> None:
    found, told = Card.load(DEMO), Card.from_published(DEMO)
    assert found.to_published()
    assert (told.temperature, told.labels) == (found.temperature, found.labels)
    assert found.temperature != Card().temperature


def test_the_readme_tells_of_licences_and_of_what_the_records_say() -> None:
    readme = (DEMO / "README.md").read_text(encoding="utf-8")
    sources = record("data.json")["sources"]
    for told in (*(source["licence"] for source in sources.values()), "Apache-2.0", DEMO_BASE):
        assert told in readme
    trained = record(RECORD)
    for number in (trained["steps"], trained["questions"], trained["tokens"]):
        assert f"{number:,}" in readme
    for kind in ("choice", "score", "noul"):
        assert f"{getattr(Card.load(DEMO).temperature, kind):.3f}" in readme


def test_no_evaluation_set_was_trained_on() -> None:
    sources = set(record(RECORD)["data"]["train"]["sources"])
    assert sources
    assert all(source.startswith(("clinc150", "banking77", "forms")) for source in sources)


@pytest.fixture(scope="module")
def with_and_without(demo_checkpoint: Path) -> tuple[Engine, Engine]:
    return Engine.from_pretrained("demo", threads=2), Engine.from_pretrained("demo-base", threads=2)


def test_demo_has_it_and_demo_base_has_not(with_and_without: tuple[Engine, Engine]) -> None:
    question = Choice(criteria=dict.fromkeys(sorted(set(MESSAGES.values()))))
    right, sure = [0, 0], [0.0, 0.0]
    for i, engine in enumerate(with_and_without):
        for decision, meant in zip(
            engine.decide_many([(message, {"q": question}) for message in MESSAGES]),
            MESSAGES.values(),
            strict=True,
        ):
            answer = decision["q"]
            assert isinstance(answer, ChoiceAnswer)
            right[i] += answer.choice == meant
            sure[i] += answer.probabilities[meant] / len(MESSAGES)
    assert right[0] >= 7
    assert right[0] >= right[1]
    assert sure[0] > sure[1] + 0.1


def test_both_names_are_the_same_weights(demo_checkpoint: Path) -> None:
    assert resolve("demo").weights_digest() == resolve("demo-base").digest() == WEIGHTS.sha256
    assert resolve("demo").adapter_folders == (DEMO,)
    assert resolve("demo-base").adapter_folders == ()
