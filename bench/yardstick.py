"""The yardstick of the gates: how far a narrow dtype is from fp32, measured in the same run."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
import torch

from readoff.bench.gate import FP32, Bounds, measured
from readoff.bench.records import Ask, Workload
from readoff.bench.rungs.first_token import FirstToken
from readoff.bench.rungs.opponent import Opponent
from readoff.bench.rungs.rung import Rung, UnavailableError
from readoff.bench.rungs.whole_head import WholeHead
from readoff.engine.backbones.decoder import Backbone
from readoff.engine.checkpoint import Checkpoint
from readoff.engine.compute import on_compute_thread
from readoff.engine.engine import Engine

QUESTIONS = 48
"""Questions that are asked in both precisions, about (a request is never cut)."""


def measure_bounds(
    engine: Engine, checkpoint: Checkpoint, asks: Sequence[Ask], opponent: Opponent | None = None
) -> Bounds:
    """Bounds for the engine's dtype.

    In a narrow dtype both sides of the measurement are transformers', so that no fault of ours
    can stretch the yardstick it is judged by; without transformers both are ours. The fp32 copy
    of the weights is dropped afterwards. `opponent`: transformers in the engine's dtype.
    """
    if engine.dtype == torch.float32:
        return FP32
    chosen = spread(asks, QUESTIONS)
    workload = Workload("yardstick", "many", "en", chosen)
    try:
        distance = on_compute_thread(
            partial(_by_transformers, engine, checkpoint, workload, opponent)
        )
    except UnavailableError:
        distance = on_compute_thread(partial(_by_ourselves, engine, checkpoint, workload))
    return measured(distance, sum(len(ask.questions) for ask in chosen))


def spread(asks: Sequence[Ask], questions: int) -> list[Ask]:
    """At most as many of `asks` as hold `questions` questions together, one at least, from all
    places: files of labelled decisions are often sorted, and their kinds round differently."""
    total = sum(len(ask.questions) for ask in asks)
    count = max(1, min(len(asks), len(asks) * questions // max(1, total)))
    return [asks[at * len(asks) // count] for at in range(count)]


def _by_transformers(
    engine: Engine, checkpoint: Checkpoint, workload: Workload, opponent: Opponent | None
) -> float:
    rounded = FirstToken(opponent or Opponent(checkpoint, engine.dtype, engine.device))
    exact = FirstToken(Opponent(checkpoint, torch.float32, engine.device))
    rounded.prepare(engine, workload)
    exact.prepare(engine, workload)
    return _distance(exact, rounded, workload.asks)


def _by_ourselves(engine: Engine, checkpoint: Checkpoint, workload: Workload) -> float:
    backbone = Backbone.load(
        checkpoint.config,
        checkpoint,
        torch.float32,
        engine.device,
        pack=engine.device.type == "cpu",
    )
    rounded, exact = WholeHead(), WholeHead()
    rounded.prepare(engine, workload)
    exact.prepare(Engine(backbone, engine.renderer, engine.card), workload)
    return _distance(exact, rounded, workload.asks)


def _distance(exact: Rung, rounded: Rung, asks: Sequence[Ask]) -> float:
    """The largest |Δp| over all options of all questions."""
    found = [0.0]
    for ask in asks:
        one, other = exact.answer(ask).given, rounded.answer(ask).given
        for name in ask.questions:
            p, q = one[name].probabilities or (), other[name].probabilities or ()
            found += np.abs(np.subtract(p, q)).tolist()
    return float(np.max(found))  # NaN wherever one is, and then every gate is red
