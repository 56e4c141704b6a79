"""What trainings leave alone until their first step is done, and what they refuse to start with."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from readoff.engine.checkpoint import digest_files, open_checkpoint
from readoff.engine.errors import NumericsError
from readoff.learn import training
from readoff.learn.errors import ExampleError, TrainingError
from readoff.learn.training import Source, train
from tests.engine.models_on_disk import save_decider

from .rig import row, write_rows
from .trainings import ADAPTER, SMALL, STATE, run, stop_at

ONE = replace(SMALL, max_steps=1, eval_every=1)


def content(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir()}


def test_an_earlier_adapter_is_gone_on_from(tmp_path: Path, model: Path, data: Path) -> None:
    first = run(model, data, tmp_path / "first", replace(SMALL, max_steps=4))
    again = started(model, tmp_path / "first")
    second = train(again, [data], tmp_path / "second", ONE).document
    assert second["valid"]["before"]["nll"] == pytest.approx(
        first.document["valid"]["best"]["nll"], abs=1e-6
    )
    assert second["facts"]["init"] == first.document["digests"]["adapter"]
    config = json.loads((tmp_path / "second" / "adapter_config.json").read_text())
    assert config["base_model_name_or_path"] == str(model.resolve())


def started(model: Path, init: Path) -> Source:
    return Source(model=str(model), dtype="fp32", thread_count=1, init=str(init))


@pytest.mark.parametrize(
    "change", [{"rank": 8, "alpha": 16.0}, {"alpha": 16.0}, {"targets": ("q_proj",)}]
)
def test_an_earlier_adapter_of_another_form(
    tmp_path: Path, model: Path, data: Path, change: Any
) -> None:
    run(model, data, tmp_path / "first", ONE)
    with pytest.raises(TrainingError, match=r"of rank 4 and alpha 8 for down_proj, o_proj"):
        train(started(model, tmp_path / "first"), [data], tmp_path / "new", replace(ONE, **change))
    assert not (tmp_path / "new").exists()


def test_an_earlier_adapter_is_not_written_over(tmp_path: Path, model: Path, data: Path) -> None:
    run(model, data, tmp_path / "first", ONE)
    before = content(tmp_path / "first")
    again = started(model, tmp_path / "first")
    with pytest.raises(TrainingError, match="is what the training reads from"):
        train(again, [data], tmp_path / "first", ONE, force=True)
    assert content(tmp_path / "first") == before
    two = replace(SMALL, max_steps=2, eval_every=1)
    train(again, [data], tmp_path / "second", two, **stop_at(1))
    with pytest.raises(TrainingError, match=r"init was .* and is None"):
        run(model, data, tmp_path / "second", two, resume=True)


def hopeless(model: Path, data: Path, patch: pytest.MonkeyPatch) -> list[Callable[[Path], None]]:
    """Trainings that fail, or are interrupted, before their first step is done."""

    def fails(kind: type[Exception], said: str, **change: Any) -> Callable[[Path], None]:
        def attempt(out: Path) -> None:
            with pytest.raises(kind, match=said):
                run(model, data, out, replace(ONE, **change), force=True)

        return attempt

    def without_peft(out: Path) -> None:
        with patch.context() as inner:
            inner.setitem(sys.modules, "peft", None)
            fails(ImportError, "peft")(out)

    def without_numbers(out: Path) -> None:
        with patch.context() as inner:
            inner.setattr(torch.nn.utils, "clip_grad_norm_", lambda *_: torch.tensor(torch.inf))
            fails(NumericsError, "The gradient of step 1")(out)

    def interrupted(out: Path) -> None:
        trained = run(model, data, out, ONE, force=True, **stop_at(0))
        assert (trained.ending, trained.document["steps"]) == ("interrupted", 0)
        assert trained.document["digests"] == {"adapter": None}

    return [
        fails(TrainingError, "no linear layer called 'c_attn'", targets=("c_attn",)),
        fails(TrainingError, r"A rank of 1000000000 is more .* \d+ at most", rank=10**9),
        fails(ExampleError, "is the limit", max_tokens=5),
        without_peft,
        without_numbers,
        interrupted,
    ]


def test_an_earlier_adapter_stays_until_the_first_step_is_done(
    model: Path, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, other = tmp_path / "out", tmp_path / "other"
    first = run(model, data, out, ONE)
    own = digest_files([out / "adapter_config.json", out / ADAPTER])
    assert first.document["digests"] == {"adapter": own}
    for name in ("evaluation.json", "README.md", "mine.txt"):
        (out / name).write_text("{}")
    before = content(out)
    for attempt in hopeless(model, data, monkeypatch):
        attempt(out)
        assert content(out) == before
        attempt(other)
        assert not other.exists()
    second = run(model, data, out, replace(ONE, seed=1), force=True)
    names = {"adapter_config.json", ADAPTER, "label_space.json", "training.json", "curves.png"}
    assert content(out).keys() == names | {"mine.txt"}
    assert second.document["digests"] != first.document["digests"]


def test_an_earlier_adapter_is_gone_once_there_is_a_state(
    model: Path, data: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    run(model, data, out, ONE)
    trained = run(model, data, out, replace(SMALL, max_steps=2), force=True, **stop_at(1))
    assert (trained.ending, trained.document["best_step"]) == ("interrupted", 0)
    assert (out / STATE).is_file()
    assert not (out / ADAPTER).exists()


def test_the_base_is_not_overwritten(model: Path, data: Path, tmp_path: Path) -> None:
    base, adapter = tmp_path / "base", tmp_path / "adapter"
    shutil.copytree(model, base)
    (base / "decision.json").write_text("{}")
    run(model, data, adapter, ONE)
    before = content(adapter)
    for out in (adapter, model):
        with pytest.raises(TrainingError, match="is what the training reads from"):
            run(adapter, data, out, ONE, force=True)
    with pytest.raises(TrainingError, match=r"holds a model"):
        run(model, data, base, ONE, force=True)
    assert content(adapter) == before
    assert (base / "decision.json").read_text() == "{}"


def test_no_second_run_in_a_folder(model: Path, data: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    said: list[str] = []

    def tell(_: Any) -> None:
        if not said:
            for option in ({}, {"force": True}, {"resume": True}):
                with pytest.raises(TrainingError, match="Another training is using") as found:
                    run(model, data, out, ONE, **option)
                said.append(str(found.value))

    assert run(model, data, out, ONE, tell=tell).ending == "finished"
    assert len(said) == 3


def test_the_revision_is_kept(
    model: Path, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, str | None]] = []

    def resolve(name: str, *, revision: str | None) -> Any:
        asked.append((name, revision))
        return open_checkpoint(model)

    monkeypatch.setattr(training, "resolve", resolve)
    source = Source(model="some/model", revision="v1", dtype="fp32", thread_count=1)
    train(source, [data], tmp_path / "out", ONE)
    config = json.loads((tmp_path / "out" / "adapter_config.json").read_text())
    assert (config["base_model_name_or_path"], config["revision"]) == ("some/model", "v1")
    assert asked == [("some/model", "v1")]
    assert replace(source, name="other/model").base_revision is None
    assert replace(source, model=str(model)).base_revision is None
    assert replace(source, model="demo").base_revision is None


def test_rows_that_the_model_cannot_take(tmp_path: Path) -> None:
    model, out = tmp_path / "model", tmp_path / "out"
    save_decider(model, "qwen2", layers=1, max_position_embeddings=500)
    rows = [row("short"), row("long " * 200), row("v", split="valid")]
    data = write_rows(tmp_path / "rows.jsonl", rows)
    with pytest.raises(
        ExampleError, match=r"line 2: .* more than 500 tokens, as many as the model takes"
    ):
        run(model, data, out, replace(ONE, max_tokens=5000))
    notes: list[str] = []
    run(model, data, out, replace(ONE, max_tokens=5000, skip_long=True), note=notes.append)
    assert "of more than 500 tokens, as many as the model takes" in notes[0]
