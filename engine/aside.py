"""`Aside`: threads of an engine's own, for asyncio's requests that take more than one pass."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from typing import TypeVar

from readoff.engine.endings import late
from readoff.engine.job import Job

R = TypeVar("R")

_THREADS = 32
"""Such requests under way at once."""


class Leave:
    """Called when nobody waits any more: the jobs that were taken leave the queue."""

    def __init__(self) -> None:
        self._jobs: list[Job] = []
        self._gone = False

    def takes(self, jobs: Sequence[Job]) -> None:
        """Before `jobs` are queued. Raises CancelledError where it was called already."""
        self._jobs += jobs
        if self._gone:
            raise CancelledError

    def __call__(self) -> None:
        self._gone = True
        for job in list(self._jobs):
            job.ticket.cancel()


class Aside:
    """Runs work that blocks, by threads that nothing else waits for: those of asyncio's own pool
    also read requests."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(_THREADS, "readoff aside")

    async def run(
        self,
        work: Callable[[Leave, float | None], R],
        deadline_ms: float | None,
        start: float,
        *,
        unheard: bool,
    ) -> R:
        """`work(leave, milliseconds left)`; `deadline_ms` counts from `start`, while no thread is
        free too. Where the caller is cancelled, work that hasn't begun is dropped, other work is
        told by `leave` and has ended before this has, unless it may go on `unheard`.

        Raises DeadlineError, and what `work` does.
        """
        within = deadline_ms
        if not isinstance(within, int | float) or isinstance(within, bool) or not 0 < within < 1e12:
            within = None  # no deadline, or none that is legal: `work` says so

        def left() -> float | None:
            return None if within is None else within - (time.perf_counter() - start) * 1e3

        def begun() -> R:
            rest = left()
            if rest is not None and rest <= 0:
                raise late()
            return work(leave, deadline_ms if rest is None else rest)

        leave, rest = Leave(), left()
        job = self._threads.submit(begun)
        limit = asyncio.timeout(None if rest is None else rest / 1e3)
        try:
            async with limit:
                return await asyncio.wrap_future(job)  # cancels it if it hasn't begun
        except TimeoutError as error:
            if not limit.expired():
                raise
            raise late() from error
        finally:
            if not job.done():
                leave()
                if not unheard:
                    await asyncio.wait([asyncio.ensure_future(_over(job))])


async def _over(job: Future[R]) -> None:
    """When `job` has ended, however it did."""
    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    job.add_done_callback(lambda _: loop.call_soon_threadsafe(ended.set))
    await ended.wait()
