"""`readoff export onnx`: its report, its JSON, its errors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from readoff.commands import export
from readoff.commands.decide import decide
from readoff.engine.errors import ExportError, RequestError
from readoff.export.errors import ParityError
from readoff.export.pack import read_pack
from tests.adapters import save_adapter
from tests.engine.models_on_disk import save_decider
from tests.export.exporting import broken

QUESTION = {"type": "choice", "criteria": {"billing": None, "tech": None, "sales": None}}
LABELLED = {
    "state": "The invoice was paid twice.",
    "questions": {"team": QUESTION, "refund": {"type": "noul"}},
    "answers": {"team": "billing", "refund": True},
}


def call(*arguments: object) -> Result:
    """The outcome of `readoff export onnx ARGUMENTS`."""
    return CliRunner().invoke(export.app, ["onnx", *(str(argument) for argument in arguments)])


@pytest.fixture
def base(tmp_path: Path) -> Path:
    save_decider(tmp_path / "base", "qwen2", layers=1)
    return tmp_path / "base"


def test_the_report(base: Path, tmp_path: Path) -> None:
    model = save_decider(base, "qwen2", layers=1)
    save_adapter(tmp_path / "adapter", model.float(), target_modules=["q_proj"])
    words = ("--model", base, "--adapter", tmp_path / "adapter", "--threads", 1)
    done = call(*words, "--out", tmp_path / "pack")
    assert done.exit_code == 0, done.output
    lines = done.stdout.splitlines()
    assert lines[0] == f"base + adapter: {tmp_path / 'pack'}"
    assert lines[1].startswith("graph      standard, fp32, ")
    assert lines[1].endswith("onnxruntime 1.15.0 or newer")
    assert lines[2] == "check      against the model in fp32"
    assert lines[3].split()[:4] == ["what", "past", "tokens", "rows"]
    assert sum(line.strip().endswith("yes") for line in lines) == 35
    assert [line.split()[-1] for line in lines[-2:]] == ["base", "adapter"]
    assert "checking" in done.stderr  # progress


def test_one_json_document(base: Path, tmp_path: Path) -> None:
    done = call("--model", base, "--out", tmp_path / "pack", "--precision", "int8", "--json")
    assert done.exit_code == 0, done.output
    told: dict[str, Any] = json.loads(done.stdout)
    assert told["graph"] == {"flavour": "standard", "precision": "int8"}
    assert told["check"]["rows"][-1]["passed"]
    assert told["check"]["max_probability"] <= told["check"]["bounds"]["probability"]


def test_figures_of_labelled_decisions(base: Path, tmp_path: Path) -> None:
    file = tmp_path / "invoices.jsonl"
    file.write_text(f"{json.dumps(LABELLED)}\n" * 3)
    words = ("--model", base, "--out", tmp_path / "pack", "--figures", file)
    done = call(*words, "--precision", "int8")
    assert done.exit_code == 0, done.output
    assert "invoices: decisions 6, same answer 1, mean |Δp| " in done.stdout
    figures = read_pack(tmp_path / "pack").figures["invoices"]
    assert 0 < figures["mean |Δp|"] <= figures["max |Δp|"] < 0.2
    assert "- invoices, same answer: 1" in (tmp_path / "pack" / "README.md").read_text()
    file.write_text("{}\n")
    assert call(*words, "--force").exception is not None


def test_labels(base: Path, tmp_path: Path) -> None:
    (tmp_path / "question.json").write_text(json.dumps(QUESTION))
    for labels, kind in (("card", "bank"), (tmp_path / "question.json", "fixed")):
        done = call("--model", base, "--out", tmp_path / kind, "--labels", labels)
        assert done.exit_code == 0, done.output
        told = json.loads((tmp_path / kind / "pack.json").read_text())
        assert told["graph"]["labels"]["kind"] == kind
    (tmp_path / "question.json").write_text('{"type": "choice"}')
    done = call("--model", base, "--out", tmp_path / "no", "--labels", tmp_path / "question.json")
    assert isinstance(done.exception, RequestError)
    done = call("--model", base, "--out", tmp_path / "no", "--labels", "none.json")
    assert isinstance(done.exception, ExportError)
    assert not (tmp_path / "no").exists()


def test_a_failed_check_fails_the_command(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with broken("model.norm.weight", 1.1, monkeypatch):
        done = call("--model", base, "--out", tmp_path / "pack")
    assert done.exit_code == 1
    assert isinstance(done.exception, ParityError)
    assert not (tmp_path / "pack").exists()


def test_an_existing_folder_needs_force(base: Path, tmp_path: Path) -> None:
    (tmp_path / "pack").mkdir()
    words = ("--model", base, "--out", tmp_path / "pack")
    assert isinstance(call(*words).exception, ExportError)
    assert call(*words, "--force").exit_code == 0


def test_help_and_usage() -> None:
    done = call("--help")
    assert done.exit_code == 0
    for option in ("--model", "--adapter", "--flavour", "--precision", "--labels", "--figures"):
        assert option in done.stdout
    assert call().exit_code == 2  # no --out
    assert call("--out", "x", "--precision", "int2").exit_code == 2
    assert decide.__doc__ is not None
    assert "readoff export onnx" in decide.__doc__
