"""Speed-ups with intervals: ratios of medians over paired repeats, bootstrapped."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from readoff.bench.records import Speedup

RESAMPLES = 4000


def speedup(slow: Sequence[float], fast: Sequence[float], seed: int = 0) -> Speedup:
    """How many times faster `fast` is. The two lists are paired: entry n of both answered the same
    request in the same round, so a resample takes or leaves both.

    The interval holds 95 % of the resampled ratios (percentile bootstrap, Efron 1979); the same
    seed gives the same interval. Raises ValueError for lists that are empty or not paired.
    """
    a, b = np.asarray(slow, dtype=np.float64), np.asarray(fast, dtype=np.float64)
    if a.shape != b.shape or a.ndim != 1 or not len(a):
        raise ValueError(f"{len(a)} and {len(b)} seconds can't be paired")
    ratio = float(np.median(a) / np.median(b))
    picked = np.random.default_rng(seed).integers(0, len(a), (RESAMPLES, len(a)))
    ratios = np.median(a[picked], axis=1) / np.median(b[picked], axis=1)
    low, high = np.percentile(ratios, (2.5, 97.5))
    return Speedup(ratio, float(low), float(high))
