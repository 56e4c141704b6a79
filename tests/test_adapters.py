"""The adapter that readoff brings along: whole, small, and of one piece with its card's figures."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from readoff.adapters import DEMO
from readoff.engine.answers import ChoiceAnswer
from readoff.engine.card import Card
from readoff.engine.checkpoint import digest_files
from readoff.engine.engine import Engine
from readoff.engine.errors import SourceError
from readoff.engine.fetch import DEMO as WEIGHTS
from readoff.engine.lora import CONFIG, RECORD
from readoff.engine.lora import WEIGHTS as MATRICES
from readoff.engine.questions import Choice
from readoff.engine.source import DEMO_BASE, resolve
from readoff.learn.evaluate.contender import CALIBRATED, DEBIASED, JSON, TRAINED, ZERO_SHOT
from readoff.learn.evaluate.scope import SAMPLE, TEST, UNSEEN
from readoff.learn.model_card import card
from readoff.learn.records import read_records
from tests.imports import ROOT

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
    records = {RECORD, "data.json", "evaluation.json", "chain.json", "notes.md"}
    assert names >= published | records | {"README.md", "curves.png"}
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


def test_what_was_measured_is_of_this_adapter_and_its_temperatures() -> None:
    digest = digest_files([DEMO / CONFIG, DEMO / MATRICES])
    evaluation, chain = record("evaluation.json"), record("chain.json")
    for found in (evaluation, chain):
        assert found["digests"] == {"weights": WEIGHTS.sha256, "adapter": digest}
    served = Card.load(DEMO).temperature
    told = evaluation["temperatures"]["values"]
    assert told == {kind: getattr(served, kind) for kind in ("choice", "score", "noul")}
    assert chain["ok"]
    assert chain["questions"] == 200
    assert all(link["ok"] for link in chain["links"] if link["bound"] is not None)


def test_all_that_was_asked_for_was_measured() -> None:
    evaluation = record("evaluation.json")
    assert {scope["name"] for scope in evaluation["scopes"]} >= {TEST, UNSEEN}
    names = {one["name"] for one in evaluation["contenders"]}
    assert names == {ZERO_SHOT, DEBIASED, TRAINED, CALIBRATED, JSON}
    (test,) = (scope for scope in evaluation["scopes"] if scope["name"] == TEST)
    kinds = {row["kind"] for row in test["rows"]}
    assert kinds >= {"family", "type", "options", "language"}
    assert all(gate["verdict"] != "not measured" for gate in evaluation["gates"])


def test_the_readme_is_made_from_the_records_and_names_every_loss() -> None:
    readme = (DEMO / "README.md").read_text(encoding="utf-8")
    notes = DEMO / "notes.md"
    assert readme == card(read_records(DEMO, {}, notes, "apache-2.0"))
    told = notes.read_text(encoding="utf-8")
    evaluation = record("evaluation.json")
    missed = [gate["name"] for gate in evaluation["gates"] if gate["verdict"] != "met"]
    for name in (*missed, *(loss["slice"] for loss in evaluation["losses"])):
        assert name in told, f"notes.md doesn't explain {name}"
    for source in record("data.json")["sources"].values():
        assert source["licence"] in readme


def test_the_projects_readme_tells_the_same_figures() -> None:
    told = (ROOT / "README.md").read_text(encoding="utf-8").partition("## Trained for the job")[2]
    told = told.partition("\n## ")[0]
    figures = {
        (scope["name"], row["slice"], row["contender"]): row
        for scope in record("evaluation.json")["scopes"]
        for row in scope["rows"]
    }
    lines = [line for line in told.splitlines() if line.startswith("| ")][1:]
    wanted = [(TEST, name) for name in (ZERO_SHOT, DEBIASED, TRAINED, CALIBRATED)]
    wanted += [(TEST + SAMPLE, name) for name in (JSON, CALIBRATED)]
    for line, (scope, name) in zip(lines, wanted, strict=True):
        row = figures[scope, "all", name]
        found = [float(number) for number in re.findall(r"\d\.\d{3}", line)][:3]
        assert found == [round(row[key], 3) for key in ("accuracy", "nll", "ece")], line
    others = [
        figures[TEST, f"routing, {size} options", TRAINED]["accuracy"] for size in (15, 5, 77)
    ]
    others += [
        figures[UNSEEN, "all", name][key]
        for name in (ZERO_SHOT, CALIBRATED)
        for key in ("accuracy", "nll")
    ]
    others.append(figures[UNSEEN, "all", CALIBRATED]["ece"])
    for value in others:
        assert f"{value:.3f}" in told


def test_no_evaluation_set_was_trained_on() -> None:
    sources = set(record(RECORD)["data"]["train"]["sources"])
    assert sources
    assert all(source.startswith(("clinc150", "banking77", "forms")) for source in sources)


@pytest.fixture(scope="module")
def with_and_without(demo_checkpoint: Path) -> tuple[Engine, Engine]:
    return Engine.from_pretrained("demo", threads=1), Engine.from_pretrained("demo-base", threads=1)


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


def test_an_adapter_alone_is_opened_on_the_file_that_it_was_trained_beside(
    demo_checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = resolve(DEMO)
    assert (alone.weights_digest(), alone.adapter_folders) == (WEIGHTS.sha256, (DEMO,))
    assert Card.load(DEMO).digests.weights == alone.weights_digest()
    (tmp_path / "demo").mkdir()
    monkeypatch.chdir(tmp_path)  # the name means ours, as it does for models
    assert resolve("demo-base", "demo").adapter_folders == (DEMO,)
    for name in (CONFIG, MATRICES):
        (tmp_path / name).write_bytes((DEMO / name).read_bytes())

    def hub(repository: str, revision: str | None) -> Path:
        raise SourceError(f"asked for {repository}")

    changed = record(RECORD)
    changed["facts"]["base"] = "0" * 64
    for text in (None, json.dumps(changed), "[]", "{"):
        if text is not None:
            (tmp_path / RECORD).write_text(text)
        with pytest.raises(SourceError, match=f"asked for {DEMO_BASE}"):
            resolve(tmp_path, snapshot=hub)
