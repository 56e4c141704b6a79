"""The rows of an evaluation's tables: every contender on every slice, and differences of two."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from readoff.bench.bootstrap import Estimate, Floats, percentile, resampled
from readoff.bench.metrics import Quality, measure
from readoff.bench.report.result import clean
from readoff.learn.evaluate.contender import Contender, Mask, taken
from readoff.learn.evaluate.slices import Slice

Row = dict[str, Any]
"""JSON values: see `figure_rows` and `paired_rows`."""


def figure_rows(
    contenders: Sequence[Contender],
    parts: Iterable[Slice],
    within: Mask,
    *,
    seed: int = 0,
    resamples: int = 1000,
    tell: Callable[[], None] = lambda: None,
) -> list[Row]:
    """One row a slice and contender, over the decisions `within` [N] that the contender covers.

    accuracy, nll (over all options), brier (over all options, 0 to 2) and ece (of "the answer is
    right", bins of equal mass) with 95 % intervals by state; `ece_if_calibrated`: the mean of what
    a calibrated model would show on this sample, None where labels are soft; `floored`: the share
    of rows where a probability of 0 met the truth; `bins` for the reliability diagram.
    """
    found = []
    for part in parts:
        for one in contenders:
            mask = part.mask & within & one.covered
            tell()
            if not mask.any():
                continue
            quality = measure(taken(one.outcomes, mask), "readout", seed=seed, resamples=resamples)
            found.append(
                {
                    "slice": part.name,
                    "kind": part.kind,
                    "contender": one.name,
                    **_row(quality),
                }
            )
    return found


def paired_rows(
    pairs: Sequence[tuple[Contender, Contender]],
    parts: Iterable[Slice],
    within: Mask,
    *,
    seed: int = 0,
    resamples: int = 1000,
) -> list[Row]:
    """One row a slice and pair (a, b): what a has more than b, on the decisions that both cover.

    `accuracy` and `nll` with 95 % intervals: both of a pair are resampled together, by state.
    """
    found = []
    for part in parts:
        for a, b in pairs:
            mask = part.mask & within & a.covered & b.covered
            if not mask.any():
                continue
            accuracy, nll = differences(a, b, mask, seed=seed, resamples=resamples)
            row: Row = {"slice": part.name, "kind": part.kind, "a": a.name, "b": b.name}
            row["decisions"] = int(mask.sum())
            found.append(row | _told("accuracy", accuracy) | _told("nll", nll))
    return found


def differences(
    a: Contender, b: Contender, mask: Mask, *, seed: int = 0, resamples: int = 1000
) -> tuple[Estimate, Estimate]:
    """(accuracy, NLL) of `a` less those of `b` over `mask` [N], with intervals by state."""
    first, second = taken(a.outcomes, mask), taken(b.outcomes, mask)
    gains = np.stack([first.correct - second.correct, first.log_loss - second.log_loss])  # [2, N]

    def statistics(times: Floats) -> Floats:
        weight = first.weight * times
        made: Floats = (gains * weight).sum(axis=1) / weight.sum()
        return made

    values = statistics(np.ones(len(first)))
    spread = resampled(statistics, first.group, seed=seed, resamples=resamples)
    return percentile(float(values[0]), spread[:, 0]), percentile(float(values[1]), spread[:, 1])


def _row(quality: Quality) -> Row:
    row: Row = {"decisions": quality.questions, "states": quality.states}
    row |= _told("accuracy", quality.accuracy)
    row |= _told("nll", quality.distribution_nll)
    row |= _told("brier", quality.distribution_brier)
    row |= _told("ece", quality.ece)
    calibrated = quality.calibrated_ece
    row["ece_if_calibrated"] = None if calibrated is None else calibrated.value
    row["ece_if_calibrated_at_most"] = None if calibrated is None else clean(calibrated.high)
    row["answered"], row["floored"] = quality.answered, quality.floored
    row["bins"] = [
        {
            "confidence": one.confidence,
            "accuracy": one.accuracy,
            "count": one.count,
            "expected_low": one.expected_low,
            "expected_high": one.expected_high,
        }
        for one in quality.bins
    ]
    return row


def _told(name: str, found: Estimate | None) -> Row:
    """Value and interval; None where there is none."""
    if found is None:
        return {name: None, f"{name}_interval": None}
    ends = [clean(found.low), clean(found.high)]
    return {name: found.value, f"{name}_interval": None if None in ends else ends}
