"""Unseen tasks: a part of their own, told task by task; logits that are there already are used."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from readoff.bench.calibrate.cache import save_rows
from readoff.bench.calibrate.table import Planned, rows_path
from readoff.bench.quality.convert import CONVERTERS
from readoff.learn.evaluate import run
from readoff.learn.evaluate.bigbench import task_decisions, tasks
from readoff.learn.evaluate.chosen import Chosen
from readoff.learn.evaluate.subject import Options, Subject
from tests.learn.evaluate.made import labelled, save_pair, write

PLANNED = (Planned("metaphor_boolean", 8), Planned("entailed_polarity", 6))


def task(folder: Path, name: str, inputs: list[str], options: tuple[str, str]) -> None:
    examples = [
        {"input": text, "target_scores": {options[n % 2]: 1, options[1 - n % 2]: 0}}
        for n, text in enumerate(inputs)
    ]
    (folder / f"{name}.json").write_text(json.dumps({"name": name, "examples": examples}))


@pytest.fixture
def chosen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Chosen:
    base, adapter = save_pair(tmp_path)
    public = tmp_path / "public"
    public.mkdir()
    metaphors = [f"He is a rock {n} <--> He is steady {n}" for n in range(10)]
    task(public, "metaphor_boolean", metaphors, ("True", "False"))
    facts = [f"Fact: Ed managed to leave {n}. Q: Did Ed leave {n}?" for n in range(10)]
    task(public, "entailed_polarity", facts, ("yes", "no"))
    monkeypatch.setattr(run, "tasks", lambda: PLANNED)
    return Chosen(
        model=str(base),
        adapter=adapter,
        test=(write(tmp_path / "test.jsonl", labelled(6)),),
        logits=tmp_path / "logits",
        bigbench=public,
        json_rows=0,
        debias="prior",
        resamples=20,
        options=Options("cpu", "fp32"),
    )


def unseen(document: dict[str, Any]) -> dict[str, Any]:
    [scope] = [scope for scope in document["scopes"] if scope["name"] == "unseen"]
    found: dict[str, Any] = scope
    return found


def test_each_task_and_family_has_its_rows(chosen: Chosen) -> None:
    document = run.evaluate(chosen)
    scope = unseen(document)
    assert scope["decisions"] == 14
    parts = {(row["kind"], row["slice"]): row["decisions"] for row in scope["rows"]}
    assert parts == {
        ("all", "all"): 14,
        ("task", "metaphor_boolean"): 8,
        ("task", "entailed_polarity"): 6,
        ("family", "rewriting"): 8,
        ("family", "verification"): 6,
    }
    lost = [row["scope"] for row in document["losses"]]
    assert lost == sorted(lost, key=lambda name: name != "unseen")
    told = {(f["name"], f["decisions"]) for f in document["files"]}
    assert ("metaphor_boolean", 8) in told


def test_logits_of_the_calibration_tables_are_used(
    chosen: Chosen, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "_TABLED", ("float32",))
    base = Subject(chosen.model, None, chosen.options)
    key = {"weights": base.weights, "template": base.renderer.template.digest}
    for planned in PLANNED:
        assert chosen.bigbench is not None
        rows = task_decisions(planned, chosen.bigbench).rows()
        surely = rows.z.copy()
        surely[:, :2] = np.where(rows.target[:, :2] > 0.0, 9.0, 0.0)
        made = replace(rows, z=surely)
        for mode in ("none", "prior"):
            path = rows_path(chosen.logits, planned, "given", mode, key, chosen.seed)
            save_rows(path, made)
    found = {row["contender"]: row for row in unseen(run.evaluate(chosen))["rows"]}
    assert found["zero-shot"]["accuracy"] == 1.0
    assert found["trained"]["accuracy"] < 1.0


def test_no_task_is_one_that_is_trained_on() -> None:
    names = [planned.name for planned in tasks()]
    assert not {"banking77", "clinc150"} & set(names)
    assert {CONVERTERS[name][0] for name in names} == {
        "routing",
        "relevance",
        "verification",
        "rewriting",
        "sufficiency",
        "navigation",
    }
