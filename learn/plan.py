"""The order of a training: which rows make up each step, known before it begins."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass

from readoff.learn.examples import Example


@dataclass(frozen=True)
class Step:
    """The rows of one optimiser step, by their numbers."""

    epoch: int
    rows: tuple[int, ...]


def plan(
    examples: Sequence[Example], *, batch: int, epochs: int, seed: int, max_steps: int | None = None
) -> list[Step]:
    """All steps. Each epoch has every row once, in an order drawn by seed and epoch.

    A step takes rows until they have `batch` questions or more. What is left of an epoch becomes a
    step of its own if it is half a batch at least, and is joined to the step before it otherwise.
    """
    counts = [sum(weight > 0.0 for weight in row.weights.values()) for row in examples]
    steps: list[Step] = []
    for epoch in range(epochs):
        order = list(range(len(examples)))
        random.Random(f"order {seed} {epoch}").shuffle(order)
        made: list[list[int]] = [[]]
        questions = 0
        for row in order:
            if questions >= batch:
                made.append([])
                questions = 0
            made[-1].append(row)
            questions += counts[row]
        if len(made) > 1 and questions < batch / 2:
            made[-2:] = [made[-2] + made[-1]]
        steps += [Step(epoch, tuple(rows)) for rows in made]
    return steps if max_steps is None else steps[:max_steps]


def rate(progress: float, warmup: float) -> float:
    """The learning rate's factor where `progress` (0 to 1) of the training is done: a line up to
    1 over the share `warmup`, then half a cosine down to 0."""
    progress = min(max(progress, 0.0), 1.0)
    if progress < warmup:
        return progress / warmup
    return 0.5 * (1.0 + math.cos(math.pi * (progress - warmup) / (1.0 - warmup)))
