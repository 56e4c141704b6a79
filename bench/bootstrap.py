"""Bootstrap intervals over states: the questions of one state are drawn together.

Source of the method: Efron's percentile bootstrap in its cluster form. A resample is a vector of
multiplicities, so weighted statistics need no copies of the data.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
LEVEL = 0.95


@dataclass(frozen=True)
class Estimate:
    """A value and its interval. `low` and `high` are NaN where there is nothing to resample."""

    value: float
    low: float
    high: float


def resampled(
    statistics: Callable[[Floats], Floats],
    groups: NDArray[np.int64],
    *,
    seed: int = 0,
    resamples: int = 1000,
) -> Floats:
    """`statistics` of every resample, [resamples, K].

    `statistics` takes the items' multiplicities [N] and returns K numbers; `groups` [N] says which
    items are drawn together, counted from 0. With a single group there is nothing to resample:
    the result is NaN.
    """
    count = int(groups.max()) + 1 if groups.size else 0
    size = statistics(np.ones(groups.shape)).shape
    if count < 2:
        return np.full((resamples, *size), np.nan)
    generator = np.random.default_rng(seed)
    share = np.full(count, 1.0 / count)
    made = np.empty((resamples, *size))
    for row in made:
        row[:] = statistics(generator.multinomial(count, share)[groups].astype(np.float64))
    return made


def interval(values: Floats) -> tuple[float, float]:
    """The middle 95 % of `values`, those that are NaN left out; NaN if all are."""
    known = values[~np.isnan(values)]
    if not known.size:
        return float("nan"), float("nan")
    low, high = np.quantile(known, [(1.0 - LEVEL) / 2.0, (1.0 + LEVEL) / 2.0])
    return float(low), float(high)


def percentile(value: float, values: Floats) -> Estimate:
    """`value` with the percentile interval of its resamples."""
    return Estimate(value, *interval(values))


def reflected(value: float, values: Floats, *, lowest: float = 0.0) -> Estimate:
    """`value` with the basic ("reverse percentile") interval of its resamples, cut at `lowest`.

    For statistics such as a calibration error, which noise can only raise: resampling adds the
    same bias once more, and the percentile interval may not even hold the value. Close to a true
    0 this one lies too high as well, so compare with what a calibrated model would show.
    """
    low, high = interval(values)
    ends = (2.0 * value - high, 2.0 * value - low)
    return Estimate(value, *(float(np.maximum(end, lowest)) for end in ends))
