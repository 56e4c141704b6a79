"""`readoff export merge`: its report, its JSON, its errors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner, Result

from readoff.commands import export
from readoff.engine.engine import Engine
from readoff.engine.errors import AdapterError, ExportError
from tests.engine.models_on_disk import ASKED, STATE
from tests.export.merging import Case, case


def call(*arguments: object) -> Result:
    """The outcome of `readoff export ARGUMENTS`."""
    return CliRunner().invoke(export.app, [str(argument) for argument in arguments])


@pytest.fixture
def made(tmp_path: Path) -> Case:
    pair = [{"target_modules": ["q_proj"]}, {"target_modules": ["lm_head"]}]
    return case(tmp_path, "qwen2", pair, layers=2, dtype=torch.bfloat16)


def words(made: Case) -> list[object]:
    first, second = made.adapters
    return ["merge", "--model", made.base, "--adapter", first, "--adapter", second]


def test_the_report(made: Case) -> None:
    done = call(*words(made), "--out", made.out, "--max-shard-size", "100KB")
    assert done.exit_code == 0, done.output
    lines = done.stdout.splitlines()
    assert lines[0] == f"2 adapters merged into base: {made.out}"
    assert "bfloat16" in lines[1]
    assert "4 files" in lines[1]
    assert "no longer the embedding" in lines[2]
    assert "max |Δlogit|" in lines[3]
    assert "max |Δp|" in lines[3]
    assert [line.split()[-1] for line in lines[4:7]] == ["base", "adapter0", "adapter1"]
    assert lines[7].endswith("the result")
    with Engine.from_pretrained(made.out, dtype="fp32", threads=1) as engine:
        assert engine.decide(STATE, ASKED).keys() == ASKED.keys()


def test_one_json_document(made: Case) -> None:
    done = call(*words(made), "--out", made.out, "--json", "--dtype", "fp32")
    assert done.exit_code == 0, done.output
    told: dict[str, Any] = json.loads(done.stdout)
    assert told["out"] == str(made.out)
    assert told["result"]["dtype"] == "float32"
    assert told["difference"]["questions"] == 7
    assert [adapter["name"] for adapter in told["adapters"]] == ["adapter0", "adapter1"]
    assert told["files"] == 1
    assert "merging" in done.stderr  # progress


def test_an_existing_folder_needs_force(made: Case) -> None:
    made.out.mkdir()
    assert isinstance(call(*words(made), "--out", made.out).exception, ExportError)
    assert call(*words(made), "--out", made.out, "--force").exit_code == 0


def test_what_does_not_fit_is_the_library_s_error(made: Case) -> None:
    (made.adapters[1] / "adapter_model.safetensors").unlink()
    assert isinstance(call(*words(made), "--out", made.out).exception, AdapterError)
    assert not made.out.exists()
    done = call(*words(made), "--out", made.out, "--max-shard-size", "huge")
    assert isinstance(done.exception, ExportError)


def test_help_and_usage() -> None:
    done = call("merge", "--help")
    assert done.exit_code == 0
    for option in ("--model", "--adapter", "--out", "--force", "--json"):
        assert option in done.stdout
    assert call("merge").exit_code == 2  # no --out
