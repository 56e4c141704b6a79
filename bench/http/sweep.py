"""One workload against one endpoint, with more and more requests in flight."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from readoff.bench.http.endpoint import DownError, Endpoint
from readoff.bench.records import Ask, Run
from readoff.engine.errors import ReadoffError

MAX_DOWN = 3
"""Requests in a row without any answer, after which the endpoint counts as gone."""

NO_ANSWER = "no answer"
"""The reason in `Level.failures` of a request that got none."""


@dataclass(frozen=True)
class Bounds:
    """What a sweep may cost: levels of concurrency, requests and seconds at each."""

    levels: Sequence[int] = (1, 2, 4, 8, 16, 32)
    requests: int = 64
    seconds: float = 20.0


@dataclass
class Level:
    """What came back with `concurrency` requests in flight."""

    concurrency: int
    runs: list[tuple[int, Run]] = field(default_factory=list)
    """(number of the ask, its answer), in the order of arrival."""
    lost: list[int] = field(default_factory=list)
    """Numbers of the asks that got no answer: out of reach, or too late."""
    wall: float = 0.0
    complete: bool = False

    @property
    def failures(self) -> Counter[str]:
        """Unusable answers by reason, and requests that got none."""
        found = Counter(
            given.failure
            for _, run in self.runs
            for given in run.given.values()
            if given.failure is not None
        )
        return found + Counter({NO_ANSWER: len(self.lost)})

    @property
    def decisions(self) -> int:
        """Answers that can be used."""
        return sum(given.value is not None for _, run in self.runs for given in run.given.values())


def sweep(
    endpoint: Endpoint,
    asks: Sequence[Ask],
    bounds: Bounds,
    begin: Callable[[Level], None] = lambda level: None,
) -> Iterator[Level]:
    """Yields each level when it is done; `begin` sees it before, and it fills while it runs.

    Raises ReadoffError when the endpoint stops answering, with how far it came; what was measured
    until then is in the level that `begin` saw.
    """
    for concurrency in bounds.levels:
        level = Level(concurrency)
        begin(level)
        _Round(endpoint, asks, bounds, level).run()
        yield level


class _Round:
    def __init__(
        self, endpoint: Endpoint, asks: Sequence[Ask], bounds: Bounds, level: Level
    ) -> None:
        self.endpoint, self.asks, self.bounds, self.level = endpoint, asks, bounds, level
        self.lock = threading.Lock()
        self.stop = threading.Event()
        self.next = 0
        self.silent = 0
        self.error: Exception | None = None

    def run(self) -> None:
        started = time.perf_counter()
        self.deadline = started + self.bounds.seconds
        # Daemons: after Ctrl-C nobody waits for a server that is slow to answer.
        workers = [
            threading.Thread(target=self._work, daemon=True) for _ in range(self.level.concurrency)
        ]
        try:
            for worker in workers:
                worker.start()
            for worker in workers:
                worker.join()
        finally:
            self.stop.set()
            self.level.wall = time.perf_counter() - started
        if self.error is not None:
            if not isinstance(self.error, ReadoffError):
                raise self.error
            done = len(self.level.runs)
            raise ReadoffError(
                f"{self.error} That was after {done} answered requests of "
                f"{self.bounds.requests}, {self.level.concurrency} at a time."
            )
        self.level.complete = True

    def _work(self) -> None:
        while not self.stop.is_set() and time.perf_counter() < self.deadline:
            with self.lock:
                number = self.next
                if number >= self.bounds.requests:
                    return
                self.next += 1
            try:
                run = self.endpoint.ask(self.asks[number % len(self.asks)])
            except Exception as error:  # raised again by `run`, in the thread that asked for it
                self._failed(number % len(self.asks), error)
            else:
                with self.lock:
                    self.silent = 0
                    self.level.runs.append((number % len(self.asks), run))

    def _failed(self, number: int, error: Exception) -> None:
        with self.lock:
            self.level.lost.append(number)
            self.silent += 1
            if self.silent >= MAX_DOWN or not isinstance(error, DownError):
                self.error = self.error or error
                self.stop.set()
