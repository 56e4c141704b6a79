"""Speed-ups with intervals: ratios of medians over paired repeats, bootstrapped."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from readoff.bench.records import Speedup

RESAMPLES = 4000

RUN_NOISE = 0.3
"""Relative, of one pair. The repeats of a run share what the machine did in that minute, so their
spread tells too little: of the same code on a shared machine, runs of one or two pairs were seen to
differ by 14 %. No interval is narrower than this over the root of the number of pairs."""


def speedup(slow: Sequence[float], fast: Sequence[float], seed: int = 0) -> Speedup:
    """How many times faster `fast` is. The two lists are paired: entry n of both answered the same
    request in the same round, so a resample takes or leaves both.

    The interval holds 95 % of the resampled ratios (percentile bootstrap, Efron 1979), and is no
    narrower than `RUN_NOISE` allows; the same seed gives the same interval. Raises ValueError for
    lists that are empty or not paired.
    """
    a, b = np.asarray(slow, dtype=np.float64), np.asarray(fast, dtype=np.float64)
    if a.shape != b.shape or a.ndim != 1 or not len(a):
        raise ValueError(f"{len(a)} and {len(b)} seconds can't be paired")
    ratio = float(np.median(a) / np.median(b))
    picked = np.random.default_rng(seed).integers(0, len(a), (RESAMPLES, len(a)))
    ratios = np.median(a[picked], axis=1) / np.median(b[picked], axis=1)
    low, high = np.percentile(ratios, (2.5, 97.5))
    floor = least_spread(len(a))
    return Speedup(ratio, min(float(low), ratio / floor), max(float(high), ratio * floor))


def least_spread(pairs: int) -> float:
    """The factor up and down from a ratio that `pairs` measurements can't tell from noise."""
    return math.exp(RUN_NOISE / math.sqrt(pairs))
