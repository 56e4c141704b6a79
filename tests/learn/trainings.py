"""Whole trainings of tiny models, to the end or interrupted."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

from readoff.learn.pace import Tick
from readoff.learn.settings import Settings
from readoff.learn.training import Source, Trained, train

STATE = "training_state.safetensors"
ADAPTER = "adapter_model.safetensors"
SMALL = Settings(
    batch=12,
    micro_tokens=1500,
    learning_rate=2e-2,
    rank=4,
    alpha=8.0,
    eval_every=2,
    patience=0,
    targets=("q_proj", "v_proj", "o_proj", "down_proj"),
)


def run(
    model: Path,
    data: Path,
    out: Path,
    settings: Settings = SMALL,
    threads: int = 1,
    **options: Any,
) -> Trained:
    source = Source(model=str(model), dtype="fp32", thread_count=threads)
    return train(source, [data], out, settings, **options)


def stop_at(step: int, share: float = 0.0) -> dict[str, Any]:
    """Options of a training that is interrupted in the middle of a step."""
    stop = threading.Event()

    def tell(tick: Tick) -> None:
        if tick.what == "training" and tick.step == step and tick.share >= share:
            stop.set()

    return {"stop": stop, "tell": tell}


def curve(trained: Trained) -> list[dict[str, Any]]:
    return [{k: v for k, v in r.items() if k != "seconds"} for r in trained.document["curve"]]
