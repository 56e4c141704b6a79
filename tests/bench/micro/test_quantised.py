"""What the comparison of 8-bit layers counts, and that it runs."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from typer import Typer
from typer.testing import CliRunner

from readoff.bench.micro import quantised
from readoff.bench.micro.quantised import drift, main, speed
from readoff.bench.seeded import QWEN35_08B
from readoff.engine.answers import NoulAnswer
from readoff.kernels.linear import int8
from tests.engine.models_on_disk import save_decider

SMALL = replace(
    QWEN35_08B,
    vocab_size=2000,
    hidden_size=64,
    intermediate_size=96,
    num_layers=4,
    layer_types=QWEN35_08B.layer_types[:4],
)


def test_drift_counts_questions() -> None:
    before = [{"a": 0.6, "b": 0.4}, {"a": 0.9, "b": 0.1}, {"x": 0.5, "y": 0.3, "z": 0.2}]
    after = [{"a": 0.48, "b": 0.52}, {"a": 0.9, "b": 0.1}, {"x": 0.5, "y": 0.3, "z": 0.2}]
    found = drift("int8", "w", False, before, after)
    assert found.questions == 3
    assert found.agreement == pytest.approx(2 / 3)
    assert found.mean == pytest.approx(0.04)
    assert found.largest == pytest.approx(0.12)
    assert found.p99 == pytest.approx(0.12 * 0.98)
    assert found.near == 1  # 0.2 apart, and answers move by 0.12: both may have moved
    assert not found.ok


def test_equal_answers_are_green() -> None:
    same = [{"a": 0.5, "b": 0.5}]
    found = drift("fp8", "w", True, same, same)
    assert (found.agreement, found.mean, found.largest, found.ok) == (1.0, 0.0, 0.0, True)


def test_noul_counts_both_sides() -> None:
    answer = NoulAnswer(0.75, {"true": 1.0, "false": 0.0})
    assert quantised.probabilities(answer) == {"true": 0.75, "false": 0.25}


@pytest.mark.skipif(not int8.vnni()[0], reason=int8.vnni()[1])
def test_speed_alternates_and_says_what_it_timed() -> None:
    found = speed(SMALL, 48, ["int8"], 2)
    assert set(found["ms"]) == {"bf16", "int8"}
    assert min(found["ms"].values()) > 0
    assert found["speedup"]["int8"] > 0
    assert (found["tokens"], found["repeats"]) == (48, 2)


def run(folder: Path, *options: str) -> tuple[int, str]:
    app = Typer()
    app.command()(main)
    found = CliRunner().invoke(app, ["--model", str(folder), "--limit", "1", *options])
    return found.exit_code, found.stdout


def test_the_last_line_is_one_document(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save_decider(tmp_path, "qwen2", max_position_embeddings=32_768, layers=2)
    monkeypatch.setattr(quantised, "AGREEMENT", 0.0)
    monkeypatch.setattr(quantised, "MEAN", 1.0)
    code, out = run(tmp_path, "--repeats", "0")
    assert code == 0, out
    document = json.loads(out.splitlines()[-1])
    assert document["ok"] == {"int8": True, "fp8": True}
    emulated = {row["kind"]: row["emulated"] for row in document["answers"]}
    assert emulated == {"int8": not int8.vnni()[0], "fp8": True}
    assert all(row["questions"] > 0 for row in document["answers"])
    assert "speed" not in document


@pytest.mark.parametrize("kind", ["int8", "fp8"])
def test_a_red_gate_reports_no_speed(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And ends with status 1 where the kind really runs: what is emulated is only told."""
    save_decider(tmp_path, "qwen2", max_position_embeddings=32_768, layers=2)
    monkeypatch.setattr(quantised, "MEAN", -1.0)
    monkeypatch.setattr(quantised, "speed", lambda *a: pytest.fail("timed on a red gate"))
    code, out = run(tmp_path, "--kind", kind)
    document = json.loads(out.splitlines()[-1])
    assert document["ok"] == {kind: False}
    assert code == int(not document["answers"][-1]["emulated"])


@pytest.fixture(autouse=True)
def _one_thread() -> object:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
