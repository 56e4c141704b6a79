"""Calibration error with bins of equal mass, beside what a calibrated model would show.

A finite sample shows an error even for a model whose probabilities are exactly right. How large
it is depends on the sample's size and on the confidences, so it is simulated: outcomes are drawn
from the confidences themselves and go through the same bins.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from readoff.bench.bootstrap import Estimate, Floats, interval

BINS = 15
_CHUNK = 2_000_000  # simulated outcomes at a time, some 16 MB


@dataclass(frozen=True)
class Bin:
    """One bin: the range and the mean of its confidences, its accuracy and its share of the mass.

    `expected_low` and `expected_high` hold the accuracy of a calibrated model in 95 % of samples;
    None where that can't be said.
    """

    low: float
    high: float
    confidence: float
    accuracy: float
    share: float
    count: int
    expected_low: float | None
    expected_high: float | None


@dataclass(frozen=True)
class Reliability:
    """The bins, the error over them, and the error that a calibrated model would show: its mean
    and 95 % interval."""

    bins: tuple[Bin, ...]
    ece: float
    calibrated: Estimate


def equal_mass(confidence: Floats, weight: Floats, bins: int = BINS) -> NDArray[np.int64]:
    """The bin of each item, [N], numbered in the order of the confidences.

    Equal confidences always share a bin, so the result doesn't depend on the items' order; a bin
    may be left empty by that. A confidence goes where the middle of its own mass lies.
    """
    _, place = np.unique(confidence, return_inverse=True)
    mass = np.bincount(place, weights=weight)
    middle = (np.cumsum(mass) - mass / 2.0) / mass.sum()
    found: NDArray[np.int64] = np.minimum(middle * bins, bins - 1).astype(np.int64)[place]
    return found


def calibration_error(
    confidence: Floats, correct: Floats, weight: Floats, bins: int = BINS
) -> float:
    """Σ over bins of mass × |accuracy − mean confidence|, with the bins of `equal_mass`."""
    gaps = np.bincount(
        equal_mass(confidence, weight, bins), weights=weight * (correct - confidence)
    )
    return float(np.abs(gaps).sum() / weight.sum())


def reliability(
    confidence: Floats,
    correct: Floats,
    weight: Floats,
    *,
    bins: int = BINS,
    seed: int = 0,
    simulations: int = 2000,
) -> Reliability:
    """The whole picture. Confidences and outcomes lie within 0 to 1; weights are not all zero."""
    keep = weight > 0.0
    confidence, correct, weight = confidence[keep], correct[keep], weight[keep]
    order = np.argsort(confidence, kind="stable")
    c, y, w = confidence[order], correct[order], weight[order]
    place = equal_mass(c, w, bins)  # ascending, so each bin is a run
    starts = np.flatnonzero(np.diff(place, prepend=-1))
    mass = np.add.reduceat(w, starts)
    mean = np.add.reduceat(w * c, starts) / mass
    rates = _simulated(c, w, starts, seed, simulations) / mass  # [simulations, bins in use]
    errors = (np.abs(rates - mean) * mass).sum(axis=1) / mass.sum()
    accuracy = np.add.reduceat(w * y, starts) / mass
    ends = np.append(starts[1:], len(c))
    made = [
        Bin(
            low=float(c[start]),
            high=float(c[end - 1]),
            confidence=float(mean[index]),
            accuracy=float(accuracy[index]),
            share=float(mass[index] / mass.sum()),
            count=int(end - start),
            expected_low=expected[0],
            expected_high=expected[1],
        )
        for index, (start, end) in enumerate(zip(starts, ends, strict=True))
        for expected in [interval(rates[:, index])]
    ]
    ece = float((np.abs(accuracy - mean) * mass).sum() / mass.sum())
    return Reliability(tuple(made), ece, Estimate(float(errors.mean()), *interval(errors)))


def _simulated(
    c: Floats, w: Floats, starts: NDArray[np.intp], seed: int, simulations: int
) -> Floats:
    """The mass of the right answers in each bin if outcomes follow `c`, [simulations, bins]."""
    generator = np.random.default_rng(seed)
    rows = max(1, _CHUNK // len(c))
    sums = [
        np.add.reduceat(
            np.where(generator.random((min(rows, simulations - done), len(c))) < c, w, 0.0),
            starts,
            axis=1,
        )
        for done in range(0, simulations, rows)
    ]
    made: Floats = np.concatenate(sums)
    return made
