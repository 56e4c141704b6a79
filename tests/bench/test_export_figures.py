"""Figures for a pack's card: the same, right and wrong answers are counted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from readoff.bench import export_figures
from readoff.bench.export_figures import figures_of, read_labelled
from readoff.bench.quality.files import QualityError
from readoff.bench.records import Ask
from readoff.engine.card import Card
from readoff.engine.checkpoint import open_checkpoint
from readoff.engine.engine import Engine
from readoff.engine.loading import load_renderer
from readoff.engine.questions import Choice
from readoff.export.graph.model import build_model
from readoff.export.graph.options import GraphOptions
from readoff.export.graph.save import to_bytes
from readoff.export.onnx_export import Subject
from readoff.export.session import GraphSession
from tests.engine.models_on_disk import save_decider

TEAM = Choice(criteria={"billing": None, "tech": None, "sales": None})
STATES = ("The invoice was paid twice.", "The screen stays dark.", "How much is a hundred?")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("model")
    save_decider(made, "qwen3", layers=2)
    return made


def subject(folder: Path, **options: Any) -> Subject:
    checkpoint, chosen = open_checkpoint(folder), GraphOptions(**options)
    graph = to_bytes(build_model(checkpoint, chosen))
    card = Card.default()
    renderer = load_renderer(checkpoint, card)
    return Subject(
        checkpoint, renderer, card, GraphSession(graph, checkpoint.config, chosen, threads=1)
    )


def asks(folder: Path) -> list[Ask]:
    """Decisions of which the model gets the first right and the others wrong."""
    made = []
    with Engine.from_pretrained(folder, dtype="fp32", threads=1) as engine:
        for number, state in enumerate(STATES):
            answer = engine.decide(state, {"team": TEAM})["team"]
            best = getattr(answer, "choice")  # noqa: B009
            label = best if number == 0 else next(o for o in TEAM.options if o != best)
            made.append(Ask(state, {"team": TEAM}, {"team": {label: 1.0}}))
    return made


def test_figures_of_fp32_and_int8(folder: Path) -> None:
    data = {"teams": asks(folder)}
    exact = figures_of(subject(folder), data)["teams"]
    assert exact["decisions"] == 3
    assert exact["same answer"] == 1.0
    assert exact["max |Δp|"] < 1e-5
    assert exact["accuracy"] == exact["accuracy of the model"] == pytest.approx(1 / 3)
    narrow = figures_of(subject(folder, precision="int8"), data)["teams"]
    assert 1e-5 < narrow["mean |Δp|"] <= narrow["p99 |Δp|"] <= narrow["max |Δp|"] < 0.1
    assert narrow["accuracy of the model"] == exact["accuracy"]
    json.dumps(narrow)


def test_groups_change_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = {"teams": asks(folder)}
    together = figures_of(subject(folder), data)["teams"]
    monkeypatch.setattr(export_figures, "_TOKENS", 1)
    alone = figures_of(subject(folder), data)["teams"]
    assert alone.keys() == together.keys()
    np.testing.assert_allclose(list(alone.values()), list(together.values()), atol=1e-5)


def test_long_requests_are_left_out_and_counted(folder: Path) -> None:
    long = Ask("word " * 2000, {"team": TEAM}, {"team": {"tech": 1.0}})
    found = figures_of(subject(folder), {"teams": [*asks(folder), long], "none": [long]})
    assert found["teams"]["decisions"] == 3
    assert found["teams"]["requests too long"] == 1
    assert found["none"] == {"decisions": 0, "requests too long": 1}


def test_files_are_read_whole_and_checked(tmp_path: Path) -> None:
    line = {"state": "x", "questions": {"b": {"type": "noul"}}, "answers": {"b": True}}
    (tmp_path / "data.jsonl").write_text(json.dumps(line) + "\n")
    (ask,) = read_labelled(tmp_path / "data.jsonl")
    assert ask.targets == {"b": {"true": 1.0}}
    (tmp_path / "data.jsonl").write_text(json.dumps(line) + "\n{}\n")
    with pytest.raises(QualityError, match="line 2"):
        read_labelled(tmp_path / "data.jsonl")
