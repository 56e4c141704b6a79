"""Whole trainings of tiny models: what they reach, what they leave, and how they are resumed."""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file

from readoff.engine.engine import Engine
from readoff.learn import trainer
from readoff.learn.errors import TrainingError
from readoff.learn.pace import Tick
from tests.engine.models_on_disk import save_decider

from .rig import row, write_rows
from .trainings import ADAPTER, SMALL, STATE, curve, run, stop_at


def test_a_task_is_learnt(data: Path, tmp_path: Path) -> None:
    model, out = tmp_path / "model", tmp_path / "adapter"
    save_decider(model, "qwen2", layers=2)
    ticks: list[Tick] = []
    settings = replace(SMALL, epochs=5, eval_every=10)
    trained = run(model, data, out, settings, tell=ticks.append)
    assert trained.ending == "finished"
    assert trained.notes == ()
    told = trained.document
    before, best = told["valid"]["before"], told["valid"]["best"]
    assert best["nll"] < 0.7 * before["nll"]
    assert best["brier"] < before["brier"]
    assert best["accuracy"] > before["accuracy"]
    assert set(best["families"]) == {"f0", "f1"}
    losses = [record["loss"] for record in told["curve"] if "loss" in record]
    assert losses[-1] < 0.7 * losses[0]
    assert told["steps"] == len(losses) == ticks[-1].steps
    assert told["questions"] == 5 * 40 * 3
    assert told["tokens"] == sum(r["tokens"] for r in told["curve"] if "loss" in r)
    assert told["tokens_per_second"] > 0
    assert told["data"]["train"]["families"] == {"f0": 60, "f1": 60}
    assert {tick.what for tick in ticks} == {"training", "validating"}
    assert ticks[-1].left is not None
    names = {"adapter_config.json", ADAPTER, "label_space.json", "training.json", "curves.png"}
    assert {file.name for file in out.iterdir()} == names
    assert json.loads((out / "training.json").read_text()) == told
    assert (out / "curves.png").read_bytes().startswith(b"\x89PNG")
    with Engine.from_pretrained(out, dtype="fp32", threads=1) as engine:
        decision = engine.decide("7 BBBBBBBBBBBB", {"route": _route()})
    assert decision["route"].choice == "b"  # type: ignore[union-attr]


def _route() -> Any:
    from readoff.engine.questions import Choice

    return Choice(instructions="Which team?", criteria=dict.fromkeys("abc"))


def test_equal_runs_give_equal_bits(model: Path, data: Path, tmp_path: Path) -> None:
    found = [run(model, data, tmp_path / name) for name in ("one", "two")]
    assert curve(found[0]) == curve(found[1])
    one, two = ((tmp_path / name / ADAPTER).read_bytes() for name in ("one", "two"))
    assert one == two
    other = run(model, data, tmp_path / "three", replace(SMALL, seed=1))
    assert curve(other) != curve(found[0])


@pytest.mark.parametrize(("step", "share"), [(1, 0.0), (2, 0.4), (3, 0.0)])
def test_an_interrupted_run_goes_on_to_the_bit(
    step: int, share: float, model: Path, data: Path, tmp_path: Path
) -> None:
    settings = replace(SMALL, epochs=2, permute=True, max_steps=5, micro_tokens=600)
    whole = run(model, data, tmp_path / "whole", settings)
    out = tmp_path / "parts"
    first = run(model, data, out, settings, **stop_at(step, share))
    assert first.ending == "interrupted"
    assert first.document["steps"] == step
    assert (out / STATE).is_file()
    with pytest.raises(TrainingError, match=r"unfinished training\. Go on with --resume"):
        run(model, data, out, settings)
    second = run(model, data, out, settings, resume=True)
    assert second.ending == whole.ending == "finished"
    assert curve(second) == curve(whole)
    assert (out / ADAPTER).read_bytes() == (tmp_path / "whole" / ADAPTER).read_bytes()
    assert not (out / STATE).exists()
    with pytest.raises(TrainingError, match="has no unfinished training"):
        run(model, data, out, settings, resume=True)


def test_interrupted_while_validating(model: Path, data: Path, tmp_path: Path) -> None:
    stop = threading.Event()

    def tell(tick: Tick) -> None:
        if tick.what == "validating" and tick.step == 2:
            stop.set()

    settings = replace(SMALL, max_steps=3)
    whole = run(model, data, tmp_path / "whole", settings)
    first = run(model, data, tmp_path / "parts", settings, stop=stop, tell=tell)
    assert (first.ending, first.document["steps"]) == ("interrupted", 2)
    second = run(model, data, tmp_path / "parts", settings, resume=True)
    assert curve(second) == curve(whole)


def test_resumed_otherwise(model: Path, data: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    run(model, data, out, **stop_at(1))
    before = (out / STATE).read_bytes()
    with pytest.raises(TrainingError, match=r"learning_rate was 0\.02 and is 0\.01; rank was 4"):
        run(model, data, out, replace(SMALL, learning_rate=0.01, rank=5), resume=True)
    other = write_rows(tmp_path / "other.jsonl", [row("a"), row("b", split="valid")])
    with pytest.raises(TrainingError, match=r"data was [0-9a-f]{64} and is"):
        run(model, other, out, resume=True)
    save_decider(tmp_path / "base", "qwen2", layers=1, seed=1)
    with pytest.raises(TrainingError, match="base was"):
        run(tmp_path / "base", data, out, resume=True)
    flipped = bytes([*before[:-1], before[-1] ^ 1])
    for damaged in (before[: len(before) // 2], flipped):
        (out / STATE).write_bytes(damaged)
        with pytest.raises(TrainingError, match="is damaged"):
            run(model, data, out, resume=True)
    (out / STATE).write_bytes(before)
    assert run(model, data, out, resume=True).ending == "finished"


def test_resumed_on_a_model_that_computes_otherwise(
    model: Path, data: Path, tmp_path: Path
) -> None:
    """The weights are the same, and what is trained isn't."""
    base, out = tmp_path / "base", tmp_path / "out"
    shutil.copytree(model, base)
    run(base, data, out, **stop_at(1))
    whole = (base / "config.json").read_text()
    (base / "config.json").write_text(json.dumps(json.loads(whole) | {"rms_norm_eps": 0.1}))
    with pytest.raises(TrainingError, match=r"begun otherwise: config was [0-9a-f]{64} and is"):
        run(base, data, out, resume=True)
    (base / "config.json").write_text(whole)
    tokenizer = json.loads((base / "tokenizer.json").read_text())
    vocabulary = tokenizer["model"]["vocab"]
    a, b = "x", "y"
    vocabulary[a], vocabulary[b] = vocabulary[b], vocabulary[a]
    (base / "tokenizer.json").write_text(json.dumps(tokenizer))
    with pytest.raises(TrainingError, match=r"begun otherwise: tokenizer was [0-9a-f]{64} and is"):
        run(base, data, out, resume=True)


def test_resumed_without_the_best_adapter(model: Path, data: Path, tmp_path: Path) -> None:
    out, settings = tmp_path / "out", replace(SMALL, eval_every=1, max_steps=3)
    first = run(model, data, out, settings, **stop_at(2))
    assert first.document["best_step"] > 0
    (out / ADAPTER).unlink()
    with pytest.raises(TrainingError, match=r"is gone: the adapter of step \d"):
        run(model, data, out, settings, resume=True)


def test_patience(model: Path, data: Path, tmp_path: Path) -> None:
    """Nothing moves at such a rate, so no evaluation is better than the first."""
    settings = replace(SMALL, learning_rate=1e-30, eval_every=1, patience=2, epochs=3)
    trained = run(model, data, tmp_path / "out", settings)
    assert trained.ending == "patience"
    assert (trained.document["steps"], trained.document["best_step"]) == (3, 1)
    assert "never fell below" in trained.notes[0]


def test_the_best_one_is_kept(
    model: Path, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    losses = iter([9.0, 3.0, 2.0, 4.0, 5.0, 5.0])
    measure = trainer.Validator.measure

    def measured(self: Any, tell: Callable[[int, int], None]) -> Any:
        return replace(measure(self, tell), nll=next(losses))

    monkeypatch.setattr(trainer.Validator, "measure", measured)
    settings = replace(SMALL, eval_every=1, max_steps=5, patience=2, epochs=2)
    trained = run(model, data, tmp_path / "out", settings)
    assert (trained.ending, trained.document["steps"]) == ("patience", 4)
    assert trained.document["best_step"] == 2
    assert trained.document["valid"]["best"]["nll"] == 2.0
    losses = iter([9.0, 3.0, 2.0])
    run(model, data, tmp_path / "short", replace(settings, max_steps=2))
    # The schedule differs with the number of steps, but the second step's place in it is stored.
    assert set(load_file(tmp_path / "out" / ADAPTER)) == set(
        load_file(tmp_path / "short" / ADAPTER)
    )


def test_time_runs_out(model: Path, data: Path, tmp_path: Path) -> None:
    settings = replace(SMALL, epochs=500, limit_minutes=0.04, eval_every=10_000)
    trained = run(model, data, tmp_path / "out", settings)
    assert trained.ending == "time"
    told = trained.document
    steps = [record for record in told["curve"] if "loss" in record]
    assert 0 < len(steps) < 1500
    assert steps[-1]["rate"] < 0.5 * max(record["rate"] for record in steps)
    assert told["valid"]["best"] is not None
    assert not (tmp_path / "out" / STATE).exists()
