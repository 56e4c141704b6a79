"""Timing one device: percentiles of many, and the time that a run may take in all."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

PAUSE = 400_000
"""Cycles: some 200 microseconds."""


class BudgetError(Exception):
    """The run's time is spent; what was measured so far is still reported."""


class Budget:
    """Seconds for the whole run, and how many repeats and seconds one measurement may take."""

    def __init__(self, seconds: float, repeats: int, slice_seconds: float) -> None:
        self.seconds, self.repeats, self.slice = seconds, repeats, slice_seconds
        self._start = time.perf_counter()

    @property
    def spent(self) -> float:
        """Seconds since the start."""
        return time.perf_counter() - self._start

    def check(self) -> None:
        """Raise BudgetError when nothing is left."""
        if self.spent >= self.seconds:
            raise BudgetError(f"the time budget of {self.seconds:.0f} s is spent")


@dataclass(frozen=True)
class Spread:
    """Milliseconds: percentiles by nearest rank, and of how many."""

    p50: float
    p95: float
    p99: float
    count: int

    @classmethod
    def of(cls, milliseconds: Sequence[float]) -> Spread:
        """From single measurements."""
        ranked = sorted(milliseconds)
        p50, p95, p99 = (
            ranked[min(len(ranked) - 1, int(q * len(ranked)))] for q in (0.5, 0.95, 0.99)
        )
        return cls(p50, p95, p99, len(ranked))


class Clock:
    """Measures on `device` within `budget`."""

    def __init__(self, device: torch.device, budget: Budget) -> None:
        self.device, self.budget = device, budget

    def wait(self) -> None:
        """Until the device has nothing left to do."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def host(self, run: Callable[[], object], warmups: int = 2) -> Spread:
        """Wall time of `run`, which comes back when its result is there."""
        self._warm(run, warmups)
        times: list[float] = []
        start = time.perf_counter()
        while self._more(len(times), start):
            begin = time.perf_counter()
            run()
            times.append((time.perf_counter() - begin) * 1e3)
        return Spread.of(times)

    def device_time(self, run: Callable[[], object], calls: int = 1, warmups: int = 2) -> Spread:
        """Time on the device of what `run` starts, by events, divided by `calls`.

        Each begins behind a pause on the device, in which the host sends the whole of it: what it
        takes to launch is in `host`, not here."""
        if self.device.type != "cuda":
            found = self.host(run, warmups)
            return Spread(found.p50 / calls, found.p95 / calls, found.p99 / calls, found.count)
        self._warm(run, warmups)
        times: list[float] = []
        start = time.perf_counter()
        while self._more(len(times), start):
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            torch.cuda._sleep(PAUSE)
            begin.record()
            run()
            end.record()
            end.synchronize()
            times.append(begin.elapsed_time(end) / calls)
        return Spread.of(times)

    def captured(self, run: Callable[[], object], calls: int = 20) -> Spread:
        """Device time of a small piece of work: `calls` of them in one graph, where there are
        graphs, so that launching them isn't what is measured."""
        if self.device.type != "cuda":
            return self.device_time(run, 1, 1)
        stream = torch.cuda.Stream(self.device)
        stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(stream):
            run()
        torch.cuda.current_stream(self.device).wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            for _ in range(calls):
                run()
        return self.device_time(graph.replay, calls)

    def _warm(self, run: Callable[[], object], warmups: int) -> None:
        self.budget.check()
        for _ in range(min(warmups, self.budget.repeats - 1)):
            run()
        self.wait()

    def _more(self, done: int, start: float) -> bool:
        if done < min(3, self.budget.repeats):
            return True
        return done < self.budget.repeats and time.perf_counter() - start < self.budget.slice
