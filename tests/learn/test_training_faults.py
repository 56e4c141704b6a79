"""Trainings that fail: numbers, disks, folders, rows and settings; what is left of them."""

from __future__ import annotations

import errno
import itertools
import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from readoff.engine.errors import NumericsError
from readoff.learn import trainer
from readoff.learn.errors import ExampleError, TrainingError
from readoff.learn.files import write_bytes, write_json
from readoff.learn.loss import Losses

from .rig import row, write_rows
from .trainings import ADAPTER, SMALL, STATE, run, stop_at


@pytest.mark.parametrize("threads", [1, 2])
def test_a_loss_that_is_no_number(
    threads: int, model: Path, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, calls = tmp_path / "out", itertools.count(1)
    losses = trainer.soft_label_losses
    # A pass's share holds the same with one worker and with two.
    settings = replace(SMALL, micro_tokens=600 * threads, eval_every=1)

    def broken(*arguments: Any) -> Losses:
        call = next(calls)
        found = losses(*arguments)
        if call < 12:
            return found
        total = found.total.clone()
        total[-1] = torch.nan
        return replace(found, total=total)

    monkeypatch.setattr(trainer, "soft_label_losses", broken)
    with pytest.raises(NumericsError, match=r"loss of step \d+ .*rows\.jsonl, line \d+\)"):
        run(model, data, out, settings, threads)
    assert load_file(out / ADAPTER)
    monkeypatch.setattr(trainer, "soft_label_losses", losses)
    assert run(model, data, out, settings, threads, resume=True).ending == "finished"


def test_a_gradient_that_is_no_number(
    model: Path, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.nn.utils, "clip_grad_norm_", lambda *_: torch.tensor(torch.inf))
    with pytest.raises(NumericsError, match=r"gradient of step 1 .*line \d+ and \d+ more"):
        run(model, data, tmp_path / "out", replace(SMALL, batch=30))


def test_a_full_disk(
    model: Path, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    run(model, data, out, **stop_at(1))
    before = (out / STATE).read_bytes()

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(TrainingError, match="No space left on device"):
            run(model, data, out, resume=True)
    assert (out / STATE).read_bytes() == before
    assert not [file for file in out.iterdir() if file.name.startswith(".")]
    assert run(model, data, out, resume=True).ending == "finished"


def test_files_are_whole_or_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_json(tmp_path / "deep" / "a.json", {"é": 1})
    assert json.loads((tmp_path / "deep" / "a.json").read_text("utf-8")) == {"é": 1}
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json(tmp_path / "a.json", {"a": float("nan")})
    (tmp_path / "folder").mkdir()
    with pytest.raises(TrainingError, match="folder can't be written"):
        write_bytes(tmp_path / "folder", b"1")
    assert {file.name for file in tmp_path.iterdir()} == {"deep", "folder"}


def test_folders_that_are_refused(model: Path, data: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(TrainingError, match="is a file"):
        run(model, data, tmp_path / "file")
    full = tmp_path / "full"
    full.mkdir()
    (full / "mine.txt").write_text("x")
    with pytest.raises(TrainingError, match="isn't empty"):
        run(model, data, full)
    assert run(model, data, full, replace(SMALL, max_steps=1), force=True).ending == "finished"
    (full / "calibration.json").write_text("{}")
    assert run(model, data, full, replace(SMALL, max_steps=1), force=True).ending == "finished"
    assert (full / "mine.txt").read_text() == "x"
    assert not (full / "calibration.json").exists()


def test_long_rows(model: Path, tmp_path: Path) -> None:
    rows = [row("short"), row("long " * 200), row("v", split="valid")]
    data, out = write_rows(tmp_path / "rows.jsonl", rows), tmp_path / "out"
    settings = replace(SMALL, max_tokens=500)
    with pytest.raises(ExampleError, match=r"line 2: the prompt of .* 500 is the limit"):
        run(model, data, out, settings)
    assert not out.exists()
    notes: list[str] = []
    trained = run(model, data, out, replace(settings, skip_long=True), note=notes.append)
    assert trained.document["data"]["train"]["rows"] == 1
    assert "1 of 2 rows (train) have a prompt of more than 500 tokens" in notes[0]
    assert "line 2" in notes[0]


def test_settings_that_are_none() -> None:
    for change in (
        {"epochs": 0},
        {"batch": 0},
        {"learning_rate": -1.0},
        {"learning_rate": float("nan")},
        {"limit_minutes": 0.0},
        {"max_steps": 0},
        {"warmup": 1.0},
        {"valid_share": 0.0},
        {"brier_weight": -0.5},
        {"stored": "int8"},
    ):
        with pytest.raises(TrainingError):
            replace(SMALL, **change)  # type: ignore[arg-type]


def test_targets_that_are_none(model: Path, data: Path, tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match=r"no linear layer called 'c_attn'; it has down_proj"):
        run(model, data, tmp_path / "out", replace(SMALL, targets=("c_attn",)))


def test_a_limit_without_time_for_a_step(model: Path, data: Path, tmp_path: Path) -> None:
    settings = replace(SMALL, limit_minutes=1e-6)
    with pytest.raises(TrainingError, match=r"1e-06 minutes leave no time for a step.*--eval-rows"):
        run(model, data, tmp_path / "out", settings)
    assert not (tmp_path / "out").exists()
