"""`Contender`: one way of answering, as columns beside the truth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from readoff.bench.bootstrap import Floats
from readoff.bench.calibrate.figures import outcomes_of
from readoff.bench.calibrate.rows import Rows
from readoff.bench.outcomes import FLOOR, Outcomes
from readoff.bench.records import Given

Mask = NDArray[np.bool_]

ZERO_SHOT = "zero-shot"
DEBIASED = "zero-shot debiased"
TRAINED = "trained"
CALIBRATED = "trained + temperature"
JSON = "greedy JSON"


@dataclass(frozen=True)
class Contender:
    """`outcomes` has all N rows; those that `covered` [N] leaves out were not asked, and what
    stands there means nothing. `unusable`: how many answers were no legal ones."""

    name: str
    outcomes: Outcomes
    covered: Mask
    unusable: int = 0


def readout(name: str, rows: Rows, p: Floats) -> Contender:
    """Probabilities `p` [N, L] of all rows."""
    return Contender(name, outcomes_of(rows, p), np.ones(len(rows), np.bool_))


def stated(name: str, rows: Rows, given: Sequence[Given | None]) -> Contender:
    """JSON answers with their stated confidence; None was not asked.

    The distribution behind an answer is its confidence c on the option that it names and
    (1 - c)/(n - 1) on each other one; without a stated confidence c is 1/n. An answer that names
    no legal option is wrong, with its confidence all the same, and its distribution is 1/n.
    """
    n = len(rows)
    p = np.zeros_like(rows.target)
    sure, right = np.zeros(n), np.zeros(n)
    covered, legal = np.zeros(n, np.bool_), np.zeros(n, np.bool_)
    for i, answer in enumerate(given):
        size, options = int(rows.sizes[i]), rows.options[i]
        p[i, :size] = 1.0 / size
        if answer is None:
            continue
        covered[i] = True
        sure[i] = 1.0 / size if answer.stated is None else answer.stated
        if answer.value is None:
            continue
        legal[i] = True
        at = options.index(answer.value)
        p[i, :size] = (1.0 - sure[i]) / (size - 1)
        p[i, at] = sure[i]
        right[i] = rows.target[i, at]
    whole = outcomes_of(rows, p)
    floored: Mask = np.any((p < FLOOR) & (rows.target > 0.0), axis=1)
    made = Outcomes(
        confidence=sure,
        correct=right,
        weight=rows.weight,
        group=whole.group,
        answered=legal,
        log_loss=whole.log_loss,
        brier=whole.brier,
        floored=floored,
        soft=whole.soft,
    )
    return Contender(name, made, covered, int((covered & ~legal).sum()))


def taken(outcomes: Outcomes, mask: Mask) -> Outcomes:
    """The rows that `mask` [N] keeps, their requests numbered anew."""
    return Outcomes(
        confidence=outcomes.confidence[mask],
        correct=outcomes.correct[mask],
        weight=outcomes.weight[mask],
        group=np.unique(outcomes.group[mask], return_inverse=True)[1].astype(np.int64),
        answered=outcomes.answered[mask],
        log_loss=outcomes.log_loss[mask],
        brier=outcomes.brier[mask],
        floored=outcomes.floored[mask],
        soft=outcomes.soft[mask],
    )


def in_order(
    places: Sequence[tuple[int, str]],
    numbers: Sequence[int],
    answers: Sequence[Mapping[str, Given]],
) -> list[Given | None]:
    """The answers to the questions `numbers` (ascending) at their places, [N]; None elsewhere.

    `answers` are those to the asks that `decisions.only` makes of these questions.
    """
    found: list[Given | None] = [None] * len(places)
    asks = list(dict.fromkeys(places[i][0] for i in numbers))
    of = dict(zip(asks, answers, strict=True))
    for i in numbers:
        ask, name = places[i]
        found[i] = of[ask][name]
    return found
