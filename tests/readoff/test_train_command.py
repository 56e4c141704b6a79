"""`readoff train` on a tiny random model: what it writes, prints, and refuses."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import nullcontext
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from readoff.commands import train_run
from readoff.commands.train import train
from readoff.engine.errors import ReadoffError
from readoff.kernels.linear import int8
from readoff.learn.errors import ExampleError, TrainingError
from readoff.learn.pace import Tick
from readoff.learn.state import STATE
from tests.engine.models_on_disk import save_decider
from tests.learn.rig import row, write_rows

pytest.importorskip("peft")
pytest.importorskip("matplotlib")

FIXED = ("--dtype", "fp32", "--threads", "1", "--rank", "2", "--batch", "9", "--eval-every", "2")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("model")
    save_decider(folder, "qwen2", layers=1)
    return str(folder)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("data")
    write_rows(folder / "train.jsonl", [row(f"mail {n}") for n in range(9)])
    write_rows(folder / "valid.jsonl", [row(f"letter {n}") for n in range(2)])
    return str(folder)


def call(*arguments: str) -> tuple[str, str]:
    """(stdout, stderr) of the command; raises what it raises."""
    app = typer.Typer()
    app.command()(train)
    result = CliRunner().invoke(app, [*FIXED, *arguments], catch_exceptions=False)
    if result.exit_code:
        raise AssertionError(f"{result.exit_code}: {result.stderr}")
    return result.stdout, result.stderr


def test_it_trains(model: str, data: str, tmp_path: Path) -> None:
    out = tmp_path / "adapter"
    shown, said = call("--model", model, "--data", data, "--out", str(out))
    lines = shown.splitlines()
    assert lines[0].startswith("3 steps, 27 questions, ")
    assert "tokens/s" in lines[0]
    assert [line.split()[1] for line in lines[1:4]] == ["NLL", "Brier", "accuracy"]
    assert lines[4].startswith("the adapter of step ")
    assert "validating: 0 of 3 steps" in said
    config = json.loads((out / "adapter_config.json").read_text())
    assert (config["r"], config["lora_alpha"], config["peft_type"]) == (2, 32, "LORA")
    assert config["base_model_name_or_path"] == model


def test_options_reach_the_settings(model: str, data: str, tmp_path: Path) -> None:
    out = tmp_path / "adapter"
    options = {
        "epochs": (2, "--epochs"),
        "max_steps": (1, "--max-steps"),
        "limit_minutes": (5.0, "--limit-time"),
        "batch": (6, "--batch"),
        "micro_tokens": (700, "--micro-tokens"),
        "at_once": (3, "--at-once"),
        "max_tokens": (900, "--max-tokens-per-state"),
        "learning_rate": (0.5, "--lr"),
        "warmup": (0.25, "--warmup"),
        "weight_decay": (0.125, "--weight-decay"),
        "clip": (3.0, "--clip"),
        "brier_weight": (0.75, "--brier"),
        "alpha": (7.0, "--alpha"),
        "valid_share": (0.5, "--valid-share"),
        "eval_rows": (1, "--eval-rows"),
        "patience": (9, "--patience"),
        "stored": ("bf16", "--store"),
        "seed": (4, "--seed"),
    }
    words = [str(word) for value, name in options.values() for word in (name, value)]
    words += ["--skip-long", "--hard", "--permute", "--target-modules", "q_proj, v_proj"]
    words += ["--base-name", "some/base", "--json"]
    quantised = int8.vnni()[0]
    words += ["--quantize", "int8"] * quantised
    shown, _ = call("--model", model, "--data", data, "--out", str(out), *words)
    told = json.loads(shown)
    facts = told["facts"]
    assert {name: facts[name] for name in options} == {k: v for k, (v, _) in options.items()}
    assert facts["skip_long"] is facts["hard"] is facts["permute"] is True
    assert facts["targets"] == told["target_modules"] == ["q_proj", "v_proj"]
    assert facts["quantize"] == ("int8" if quantised else None)
    assert told["base"] == "some/base"
    assert told["valid"]["best"]["nll"] > 0


def test_what_is_refused(model: str, data: str, tmp_path: Path) -> None:
    fixed = ("--model", model, "--data", data, "--out", str(tmp_path / "adapter"))
    with pytest.raises(TrainingError, match="no unfinished training"):
        call(*fixed, "--resume")
    with pytest.raises(TrainingError, match="learning_rate must be"):
        call(*fixed, "--lr", "-1")
    bad = write_rows(tmp_path / "bad.jsonl", [row("a", weight=-1)])
    with pytest.raises(ExampleError, match=r"bad\.jsonl, line 1.*not negative"):
        call("--model", model, "--data", str(bad), "--out", str(tmp_path / "adapter"))
    with pytest.raises(ReadoffError, match="no folder or file"):
        call("--model", "nowhere", "--data", data, "--out", str(tmp_path / "adapter"))
    with pytest.raises(AssertionError, match="2: "):
        call("--model", model, "--data", "none", "--out", str(tmp_path / "adapter"))
    with pytest.raises(AssertionError, match=r"2: (?s:.*)--resume goes on with what --force"):
        call(*fixed, "--resume", "--force")
    assert not (tmp_path / "adapter").exists()


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_saves_and_ends_the_command(
    number: signal.Signals, status: int, model: str, data: str, tmp_path: Path
) -> None:
    """A process of its own, as a user has it."""
    out = tmp_path / "adapter"
    code = (
        "import typer; from readoff.commands.train import train\n"
        "app = typer.Typer(); app.command()(train); app()\n"
    )
    words = ["--model", model, "--data", data, "--out", str(out), *FIXED, "--epochs", "3000"]
    process = subprocess.Popen(
        [sys.executable, "-c", code, *words], stderr=subprocess.PIPE, text=True, env=os.environ
    )
    deadline = time.monotonic() + 300
    while not (out / STATE).is_file() and time.monotonic() < deadline:
        time.sleep(0.1)
    process.send_signal(number)
    _, said = process.communicate(timeout=300)
    assert process.returncode == status, said
    assert "--resume goes on from here" in said
    assert (out / STATE).is_file()
    assert json.loads((out / "training.json").read_text())["ending"] == "interrupted"


def test_interrupted_before_the_first_step(
    model: str, data: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop = train_run.Stop()
    stop.set()
    monkeypatch.setattr(train_run, "interruptible", lambda: nullcontext(stop))
    out = tmp_path / "adapter"
    with pytest.raises(AssertionError, match=f"before the first step was done: {out} is as it was"):
        call("--model", model, "--data", data, "--out", str(out))
    assert not out.exists()


def test_the_second_signal_stops_at_once() -> None:
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    with train_run.interruptible() as stop:
        signal.raise_signal(signal.SIGINT)
        assert stop.is_set()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    with train_run.interruptible() as stop:
        signal.raise_signal(signal.SIGTERM)
        assert stop.is_set()
        with pytest.raises(SystemExit, match="143"):
            signal.raise_signal(signal.SIGTERM)
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before


def test_a_log_gets_a_line_now_and_then(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tick = Tick("training", 3, 90, 0.5, 0.75, 0.5, 350.4, 3723.0)
    monkeypatch.setattr(train_run, "PAUSE", 100.0)
    with train_run.progress() as tell:
        tell(tick)
        tell(tick)
    assert capsys.readouterr().err == (
        "  training: 3 of 90 steps · loss 0.750 · best validation NLL 0.500 · 350 tokens/s · "
        "1:02:03 left\n"
    )


def test_a_terminal_gets_a_bar(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "150")
    with train_run.progress() as tell:
        tell(Tick("validating", 0, 90, 0.5, None, None, None, None))
        tell(Tick("training", 3, 90, 0.5, 0.75, None, 350.4, 62.0))
    said = capsys.readouterr().err
    assert "3/90 · loss 0.750 · 350 tokens/s · 1:02 left" in said
