"""Tasks that training never saw: BIG-bench and Cranfield, sampled as in docs/calibration.md."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from readoff.bench.calibrate.table import PLAN, Planned
from readoff.bench.quality.convert import CONVERTERS, convert
from readoff.learn.evaluate.decisions import Decisions, of_asks

TRAINED_ON = ("banking77", "clinc150")
"""Data sets whose training parts are trained on: their test parts are no unseen tasks."""


def tasks() -> Sequence[Planned]:
    """The unseen tasks of the plan, and how many of each one's decisions."""
    return tuple(planned for planned in PLAN if planned.name not in TRAINED_ON)


def task_decisions(
    planned: Planned, folder: Path, *, limit: int | None = None, seed: int = 0
) -> Decisions:
    """One task, at most `limit` of its decisions. Raises QualityError as `convert` does."""
    wanted = planned.limit if limit is None else min(limit, planned.limit)
    asks = convert(planned.name, folder, limit=wanted, seed=seed)
    return of_asks(asks, CONVERTERS[planned.name][0], "en", planned.name)
