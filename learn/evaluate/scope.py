"""`Scope`: one set of decisions with everybody's answers, and what is told of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from readoff.bench.calibrate.rows import Rows
from readoff.learn.evaluate.contender import (
    CALIBRATED,
    DEBIASED,
    JSON,
    TRAINED,
    ZERO_SHOT,
    Contender,
    Mask,
)
from readoff.learn.evaluate.decisions import Decisions
from readoff.learn.evaluate.figures import figure_rows, paired_rows
from readoff.learn.evaluate.slices import slices

TEST, UNSEEN = "test", "unseen"
"""The test split of what was trained on, and tasks that training never saw."""
SAMPLE = " sample"
"""Ends the name of a part: those decisions that the JSON answered too."""

PAIRS = (
    (TRAINED, ZERO_SHOT),
    (TRAINED, DEBIASED),
    (CALIBRATED, ZERO_SHOT),
    (CALIBRATED, DEBIASED),
    (CALIBRATED, TRAINED),
    (CALIBRATED, JSON),
    (TRAINED, JSON),
)
"""Who is compared with whom."""


@dataclass(frozen=True)
class Scope:
    """`rows` [N] are the decisions with any logits; every contender has N outcomes."""

    name: str
    decisions: Decisions
    rows: Rows
    contenders: Sequence[Contender]

    def document(
        self,
        *,
        seed: int = 0,
        resamples: int = 1000,
        tell: Callable[[], None] = lambda: None,
    ) -> list[dict[str, Any]]:
        """One part with all decisions (the JSON left out unless it answered all), and one with
        those that every contender answered, if these are fewer."""
        everything = np.ones(len(self.rows), np.bool_)
        shared = np.logical_and.reduce([one.covered for one in self.contenders])
        whole = [one for one in self.contenders if one.covered.all()]
        made = [self._part(self.name, whole, everything, seed, resamples, tell)]
        if len(whole) < len(self.contenders):
            name = self.name + SAMPLE
            made.append(self._part(name, self.contenders, shared, seed, resamples, tell))
        return made

    def _part(
        self,
        name: str,
        contenders: Sequence[Contender],
        within: Mask,
        seed: int,
        resamples: int,
        tell: Callable[[], None],
    ) -> dict[str, Any]:
        parts = slices(self.decisions, self.rows, tasks=self.name == UNSEEN)
        known = {one.name: one for one in contenders}
        pairs = [(known[a], known[b]) for a, b in PAIRS if a in known and b in known]
        how = {"seed": seed, "resamples": resamples}
        return {
            "name": name,
            "decisions": int(within.sum()),
            "states": len(np.unique(self.rows.state[within])),
            "unusable_json": sum(one.unusable for one in contenders),
            "rows": figure_rows(contenders, parts, within, tell=tell, **how),
            "paired": paired_rows(pairs, parts, within, **how),
        }
