"""A scheduler over passes that are made up."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from readoff.engine.job import Group, Job
from readoff.engine.plan import Line
from readoff.engine.scheduler import Scheduler

SOON = 20.0


def job(priority: int = 0, deadline: float | None = None, group: Group | None = None) -> Job:
    due = None if deadline is None else time.perf_counter() + deadline
    return Job([Line(((1,),), (2,))], group or Group(), lambda job: None, priority, due)


class Fake:
    """A step that waits until it may go on, then answers jobs with their own numbers."""

    def __init__(self, at_once: int = 1 << 30) -> None:
        self.at_once = at_once
        self.seen: list[list[Job]] = []
        self.over: list[Job] = []
        self.go = threading.Event()
        self.go.set()
        self.entered = threading.Event()
        self.error: BaseException | None = None

    def __call__(self, jobs: Sequence[Job]) -> list[tuple[Job, Any]]:
        self.seen.append(list(jobs))
        self.entered.set()
        assert self.go.wait(SOON)
        if self.error is not None:
            error, self.error = self.error, None
            raise error
        return [(one, one.number) for one in jobs[: self.at_once]]

    @contextmanager
    def held(self) -> Iterator[None]:
        """Passes that begin in here end only after it."""
        self.go.clear()
        self.entered.clear()
        try:
            yield
        finally:
            self.go.set()


@contextmanager
def running(step: Fake, max_queue: int = 100, max_wait: float = 0.0) -> Iterator[Scheduler]:
    made = Scheduler(
        step, max_queue=max_queue, max_wait=max_wait, name="test", over=step.over.append
    )
    try:
        yield made
    finally:
        step.go.set()
        made.close()
        assert made._thread is None or not made._thread.is_alive()
        counts = made.counters
        ends = counts.answered + counts.failed + counts.cancelled + counts.expired + counts.rejected
        assert counts.requests == ends
        assert made.depth == 0


def busy(scheduler: Scheduler, step: Fake) -> Job:
    """A job in the pass that runs, while `step` is held."""
    first = job()
    scheduler.submit(first)
    assert step.entered.wait(SOON)
    return first
