"""The benchmark of exported graphs on a tiny model: it runs, and times no wrong answer."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner, Result

from readoff.bench import onnx
from tests.engine.models_on_disk import save_decider
from tests.export.packs import pack_of


def run(*words: str) -> Result:
    app = typer.Typer(pretty_exceptions_enable=False)
    app.command()(onnx.main)
    return CliRunner().invoke(app, [*words, "--repeats", "1", "--threads", "1"])


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onnx, "STATE", 70)
    monkeypatch.setattr(onnx, "QUESTION", 9)


@pytest.mark.slow
@pytest.mark.usefixtures("short")
def test_a_model_is_exported_for_the_run(tmp_path: Path) -> None:
    save_decider(tmp_path, "qwen3_5")
    done = run("--model", str(tmp_path))
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["start-up, standard int8"]["both s"] > 0
    cold = told["one cold prompt"]
    assert {"standard int8 against standard fp32", "contrib fp32 against standard fp32"} <= set(
        cold
    )
    assert told["8 questions, standard fp32"]["ratio"] > 0
    assert told["8 questions, standard fp32"]["token bound"] == pytest.approx(8 * 79 / 142)


@pytest.mark.usefixtures("short")
def test_packs_of_two_models_are_not_timed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onnx, "startup", lambda *arguments: {"both s": 1.0})
    sources = []
    for seed in (0, 1):
        save_decider(tmp_path / str(seed), "qwen2", layers=1, seed=seed)
        sources += ["--model", str(tmp_path / f"pack{seed}")]
        pack_of(tmp_path / str(seed), tmp_path / f"pack{seed}")
    done = run(*sources)
    assert done.exit_code == 1
    assert json.loads(done.stdout)["gate"] == "red"
