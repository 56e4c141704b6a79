"""Timing contenders against each other in one run: alternating, medians, ratios."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Times:
    """Seconds of every repeat of one contender."""

    seconds: tuple[float, ...]

    @property
    def median(self) -> float:
        """The middle repeat."""
        return statistics.median(self.seconds)

    @property
    def p95(self) -> float:
        """The 95th percentile, nearest rank."""
        return sorted(self.seconds)[max(0, round(0.95 * len(self.seconds)) - 1)]


def timed(function: Callable[[], object]) -> float:
    """Seconds that one call takes."""
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def alternate(
    contenders: Mapping[str, Callable[[], float]], repeats: int, warmups: int = 1
) -> dict[str, Times]:
    """Run the contenders in turn, `repeats` times each, after `warmups` unmeasured rounds.

    A contender runs once and returns its own seconds. Whatever slows the machine for a while
    slows all of them.
    """
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    for turn in range(warmups + repeats):
        for name, run in contenders.items():
            took = run()
            if turn >= warmups:
                seconds[name].append(took)
    return {name: Times(tuple(values)) for name, values in seconds.items()}


def ratio(slow: Times, fast: Times) -> float:
    """How many times faster `fast` is: the median over the repeats of the paired ratios."""
    return statistics.median(a / b for a, b in zip(slow.seconds, fast.seconds, strict=True))
