"""Ablations: what differs, differs in one thing; done trainings are kept; the table says it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from readoff.learn import variants as ablations
from readoff.learn.errors import ExampleError, TrainingError
from readoff.learn.evaluate.subject import Options
from readoff.learn.settings import differences
from readoff.learn.variants import SMALL, STANDARD, Setup, markdown, ordered, run, variants
from tests.learn.evaluate.made import labelled, save_pair, write

TINY = replace(SMALL, batch=8)


@pytest.fixture
def setup(tmp_path: Path) -> Setup:
    base, _ = save_pair(tmp_path)
    for name, weight in (("data", 0.5), ("estimated", 0.9)):
        folder = tmp_path / name
        folder.mkdir()
        rows = labelled(12, split="train", start=100)
        weighed = [row | {"weight": weight if n % 2 else 1.0} for n, row in enumerate(rows)]
        write(folder / "train.jsonl", weighed)
        write(folder / "valid.jsonl", labelled(6, split="valid", start=500))
    return Setup(
        model=str(base),
        data=tmp_path / "data",
        estimated=tmp_path / "estimated",
        out=tmp_path / "out",
        states=12,
        valid_states=6,
        resamples=20,
        options=Options("cpu", "fp32", 1),
    )


def test_each_variant_differs_in_one_thing() -> None:
    standard, *others = variants()
    for one in others:
        changed = differences(standard.settings.to_json(), one.settings.to_json())
        assert len(changed) + (one.data != standard.data) == 1, one.name


def test_a_row_in_order_has_the_same_label() -> None:
    question = {"type": "choice", "criteria": {"b": "two", "a": None, "c": {}}}
    row = {"state": "s", "questions": {"q": question}, "answers": {"q": {"b": 0.75, "c": 0.25}}}
    found = json.loads(ordered(json.dumps(row)))
    assert list(found["questions"]["q"]["criteria"].items()) == [
        ("a", None),
        ("b", "two"),
        ("c", {}),
    ]
    assert found["answers"] == row["answers"]


@pytest.mark.slow
def test_trainings_are_run_once_and_compared(setup: Setup, monkeypatch: pytest.MonkeyPatch) -> None:
    first = run(setup, TINY)
    names = [row["contender"] for row in first["rows"]]
    assert names == ["zero-shot", *(one.name for one in variants())]
    assert {row["a"] for row in first["differences"]} == set(names) - {STANDARD}
    values = {row["contender"]: row["nll"] for row in first["rows"]}
    assert values["no-brier"] != values[STANDARD] != values["zero-shot"]
    assert values["estimated-weights"] != values[STANDARD]
    text = markdown(first)
    for row in first["rows"]:
        assert f"{row['nll']:.3f}" in text
    for row in first["differences"]:
        assert f"{row['nll']:+.3f}" in text
    monkeypatch.setattr(ablations, "train", lambda *a, **k: pytest.fail("trained again"))
    assert run(setup, TINY) == first
    with pytest.raises(TrainingError, match="batch was 8 and is 16"):
        run(setup, replace(TINY, batch=16))
    with pytest.raises(TrainingError, match="data was"):
        run(replace(setup, states=11), TINY)


def test_other_rows_under_estimated_weights_are_refused(setup: Setup) -> None:
    assert setup.estimated is not None
    weights = [json.loads(line)["weight"] for line in ablations._rows(setup, "estimated")]
    assert weights[:2] == [1.0, 0.9]
    rows: list[Any] = labelled(12, split="train", start=300)
    write(setup.estimated / "train.jsonl", rows)
    with pytest.raises(ExampleError, match="other rows"):
        ablations._rows(setup, "estimated")


def test_too_few_rows_are_told(setup: Setup) -> None:
    with pytest.raises(ExampleError, match="has 6 rows, and 60 are wanted"):
        run(replace(setup, valid_states=60), TINY)
