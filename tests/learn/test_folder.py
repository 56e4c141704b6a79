"""An adapter's folder: who may have it, what is never touched in it, and what killed runs leave."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Any

import pytest

from readoff.learn.errors import TrainingError
from readoff.learn.files import LOCK
from readoff.learn.folder import finish, go_on, prepared, replace

from .trainings import ADAPTER, STATE

DRAFT = f".{STATE}.4711"


def fill(folder: Path, *names: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).write_text('{"facts": {}}')
    return folder


def names(folder: Path) -> set[str]:
    return {file.name for file in folder.iterdir()}


def prepare(out: Path, *read: Path, resume: bool = False, force: bool = False) -> None:
    with prepared(out, read, resume=resume, force=force):
        assert LOCK in names(out)


def test_one_run_at_a_time(tmp_path: Path) -> None:
    out = tmp_path / "deep" / "adapter"
    with prepared(out, [], resume=False, force=False):
        with pytest.raises(TrainingError, match=r"Another training is using .*adapter\. Wait"):
            prepare(out)
        with pytest.raises(TrainingError, match="Another training"):
            prepare(out, force=True)
        fill(out, STATE)
        with pytest.raises(TrainingError, match="Another training"):
            prepare(out, resume=True)
    assert names(out) == {STATE}
    prepare(out, resume=True)


def test_nothing_is_left_of_a_run_that_wrote_nothing(tmp_path: Path) -> None:
    out = tmp_path / "deep" / "adapter"
    with (
        pytest.raises(RuntimeError, match="later"),
        prepared(out, [], resume=False, force=False),
    ):
        raise RuntimeError("later")
    with pytest.raises(TrainingError, match="no unfinished training"):
        prepare(out, resume=True)
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_run_leaves(tmp_path: Path) -> None:
    """A killed run can't remove its lock and drafts: they stop nobody, and go with the next run."""
    out = fill(tmp_path / "out", LOCK, DRAFT)
    prepare(out)
    replace(out)
    assert names(out) == set()
    fill(out, STATE, DRAFT, ADAPTER, "mine.txt")
    go_on(out, best_step=3)
    assert names(out) == {STATE, ADAPTER, "mine.txt"}
    go_on(out, best_step=0)  # the matrices are of no evaluation that the state knows of
    assert names(out) == {STATE, "mine.txt"}
    with pytest.raises(TrainingError, match=r"safetensors is gone: the adapter of step 3"):
        go_on(out, best_step=3)


def test_what_is_read_is_never_written(tmp_path: Path) -> None:
    base = fill(tmp_path / "base", "training.json")
    (tmp_path / "link").symlink_to(base)
    for out in (base, tmp_path / "link", base / ".." / "base"):
        with pytest.raises(TrainingError, match="is what the training reads from"):
            prepare(out, tmp_path / "data", base, force=True)
    model = fill(tmp_path / "model", "model.safetensors", "training.json")
    with pytest.raises(TrainingError, match=r"holds a model \(model\.safetensors\)"):
        prepare(model, force=True)


@pytest.mark.parametrize("name", ["calibration.json", "adapter_config.json", "curves.png"])
def test_only_a_training_is_replaced(name: str, tmp_path: Path) -> None:
    out = fill(tmp_path, name, "mine.txt")
    (out / "training.json").write_text("[1]")  # somebody else's
    with pytest.raises(TrainingError, match="nothing there says that a training wrote it"):
        prepare(out, force=True)
    fill(out, "training.json")
    with pytest.raises(TrainingError, match=r"isn't empty"):
        prepare(out)
    prepare(out, force=True)
    assert names(out) == {name, "mine.txt", "training.json"}


def test_replace(tmp_path: Path) -> None:
    about = ("evaluation.json", "evaluation.md", "chain.json", "data.json", "README.md")
    drawn = ("curves.png", "accuracy-en.png", "reliability-f-adapter.png")
    foreign = {"mine.txt", "photo.png", "train.jsonl", "adapter_model.bin", LOCK}
    ours = ("adapter_config.json", ADAPTER, "label_space.json", "decision.json", "calibration.json")
    out = fill(tmp_path, *about, *drawn, *foreign, *ours, STATE, "training.json")
    replace(out)
    assert names(out) == foreign | {STATE}
    fill(out, *about, *ours)
    replace(out)  # without a record nobody knows whose these are
    assert names(out) == foreign | {STATE, *about}


def test_folders_that_the_system_refuses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those who run this may be allowed to do everything, so the refusals are made."""
    denied = PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(tmp_path / "x"))

    def deny(*_: Any, **__: Any) -> None:
        raise denied

    out = fill(tmp_path / "out", "training.json")
    for method, said in (
        ("iterdir", "can't be read"),
        ("open", "can't be written to"),
        ("exists", "can't be read"),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(Path, method, deny)
            with pytest.raises(TrainingError, match=rf"out {said} \(Permission denied\)"):
                prepare(out, force=method == "open")
    fill(out, STATE)
    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", deny)
        with pytest.raises(TrainingError, match="x can't be removed"):
            replace(out)
        with pytest.raises(TrainingError, match="x can't be removed"):
            go_on(out, best_step=0)
    assert STATE in names(out)


def test_what_is_said_of_an_adapter_that_is_no_better(tmp_path: Path) -> None:
    def said(best: float) -> tuple[str, ...]:
        valid = {"before": {"nll": 1.0}, "best": {"nll": best}}
        return finish(tmp_path, {"curve": [], "valid": valid}, "finished")

    assert said(0.5) == ()
    assert "the adapter is no better." in said(1.0)[0]
    assert "the adapter makes it worse." in said(1.5)[0]
    assert json.loads((tmp_path / "training.json").read_text())["valid"]["best"]["nll"] == 1.5
