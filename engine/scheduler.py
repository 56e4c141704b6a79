"""`Scheduler`: many callers, one thread that runs passes, each for as many of them as fit."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from readoff.engine.compute import settle
from readoff.engine.endings import closed, error_of, late
from readoff.engine.errors import ClosedError, DeadlineError, OverloadedError, StepError
from readoff.engine.job import Job

R = TypeVar("R")


@dataclass
class Counters:
    """Since the engine was made. Every request ends in exactly one of `answered`, `failed`,
    `cancelled`, `expired` and `rejected`."""

    requests: int = 0
    answered: int = 0
    failed: int = 0
    cancelled: int = 0
    expired: int = 0
    rejected: int = 0


class Scheduler:
    """An admission queue and the thread that empties it.

    `step(jobs)` runs one pass for some of the jobs, which come in their order, and returns those
    that are over, each with its result or its exception; a job that isn't among them stays in the
    queue. Should `step` itself raise, all of `jobs` are over. `over(job)` is called, by the same
    thread, for each job that left the queue.
    """

    def __init__(
        self,
        step: Callable[[Sequence[Job]], Sequence[tuple[Job, Any]]],
        *,
        max_queue: int,
        max_wait: float,
        name: str,
        over: Callable[[Job], None] = lambda job: None,
    ) -> None:
        self.counters = Counters()
        self.max_queue, self.max_wait = max_queue, max_wait
        self._step, self._over, self._name = step, over, name
        self._lock = threading.RLock()  # a garbage collection in here may close another engine
        self._work = threading.Condition(self._lock)
        self._room = threading.Condition(self._lock)
        self._queue: list[Job] = []
        self._gone: list[Job] = []  # nobody waits for them; the thread will end them
        self._calls: list[tuple[Callable[[], Any], Future[Any]]] = []
        self._running: Sequence[Job] = []
        self._closed = False
        self._pid = os.getpid()
        self._thread: threading.Thread | None = None

    @property
    def is_current(self) -> bool:
        """Whether the caller runs on the scheduler's own thread."""
        return self._thread is threading.current_thread()

    @property
    def depth(self) -> int:
        """How many requests wait."""
        return len(self._queue)

    def submit(self, *jobs: Job) -> None:
        """Queue all of these jobs, or none. More at once than `max_queue` go into an empty queue.

        Raises:
            OverloadedError: the queue has no room for them.
            ClosedError: the scheduler is closed, or belongs to the parent of this process.
            StepError: its thread can't be started.
        """
        self._check_process()
        with self._work:
            self._check_open()
            self._start()
            self.counters.requests += len(jobs)
            most = max(0, self.max_queue - len(jobs))
            if len(self._queue) > most:
                self._sweep()
            if len(self._queue) > most:
                self.counters.rejected += len(jobs)
                raise OverloadedError(
                    f"{len(self._queue)} requests are waiting, and max_queue is {self.max_queue}. "
                    "Try again a little later, or make room for more.",
                    depth=len(self._queue),
                )
            for job in jobs:
                self._put(job)

    def submit_many(self, jobs: Sequence[Job]) -> None:
        """Queue jobs one after another, waiting for room. Raises what `submit` does but
        OverloadedError, and DeadlineError if there was no room in time."""
        self._check_process()
        waiting = list(jobs)[::-1]
        with self._room:
            while waiting:
                self._check_open()
                self._start()
                room = self.max_queue - len(self._queue)
                for _ in range(min(room, len(waiting))):
                    self.counters.requests += 1
                    self._put(waiting.pop())
                if waiting and not self._room.wait(waiting[-1].left()):
                    raise late()

    def call(self, function: Callable[[], R]) -> R:
        """Run `function` on the worker, between two passes, and return what it returns. Raises
        ClosedError, StepError where there can't be a worker, and what `function` raises."""
        self._check_process()
        if threading.current_thread() is self._thread:  # a future's callback: no pass is running
            return function()
        done: Future[R] = Future()
        with self._work:
            self._check_open()
            self._start()
            self._calls.append((function, done))
            self._work.notify()
        return done.result()

    def close(self, wait: bool = True) -> None:
        """Finish the pass that runs, end every waiting request with ClosedError, stop the thread;
        `wait` until it has stopped. May be called more than once."""
        if os.getpid() != self._pid:
            return  # a fork's copy: its locks and its thread are the parent's
        with self._work:
            self._closed = True
            running = set(self._running)
            left = [job for job in (*self._queue, *self._gone) if job not in running]
            self._queue, self._gone = [], []
            self._work.notify_all()
            self._room.notify_all()
        raised: BaseException | None = None
        for job in left:
            try:
                self.end(job, closed())
            except BaseException as error:  # of somebody's callback: all others end too
                raised = raised or error
        thread = self._thread
        if wait and thread is not None and thread is not threading.current_thread():
            thread.join()
        if raised is not None:
            raise raised

    def end(self, job: Job, outcome: Any) -> None:
        """End a job with a result or an exception; its waiting caller sees it at once."""
        counter = "answered"
        if isinstance(outcome, BaseException):
            counter = "expired" if isinstance(outcome, DeadlineError) else "failed"
        with self._lock:
            if job.ended:
                return
            job.ended = True
            if not job.ticket.set_running_or_notify_cancel():
                counter = "expired" if job.expired(time.perf_counter()) else "cancelled"
            setattr(self.counters, counter, getattr(self.counters, counter) + 1)
        if job.ticket.cancelled():
            return
        if isinstance(outcome, BaseException):
            job.ticket.set_exception(outcome)
        else:
            job.ticket.set_result(outcome)

    def _sweep(self) -> None:
        """Take those out of the queue that nobody waits for. With the lock held."""
        now = time.perf_counter()
        alive: list[Job] = []
        for job in self._queue:
            gone = job.ticket.cancelled() or job.expired(now)
            (self._gone if gone else alive).append(job)
        self._queue = alive

    def _put(self, job: Job) -> None:
        self._queue.append(job)
        self._work.notify()

    def _start(self) -> None:
        """The thread, before anything waits for it. With the lock held, which it waits for."""
        if self._thread is not None:
            return
        thread = threading.Thread(target=self._run, name=self._name, daemon=True)
        try:
            thread.start()
        except RuntimeError as error:
            raise StepError(
                f"The engine's thread can't be started ({error}). Allow this process more threads."
            ) from error
        self._thread = thread

    def _check_open(self) -> None:
        if self._closed:
            raise ClosedError("The engine is closed. Load the model again to go on.")

    def _check_process(self) -> None:
        """Before any lock: in a fork, another thread's copy may hold it for ever."""
        if os.getpid() != self._pid:
            raise ClosedError(
                "This engine was made by the parent of this process: its thread doesn't live "
                "here. Load the model after the fork."
            )

    def _run(self) -> None:
        while True:
            with self._work:
                while not (self._queue or self._gone or self._calls or self._closed):
                    self._work.wait()
                calls, self._calls = self._calls, []
                if self._closed and not calls:
                    return
                if not calls:
                    self._linger()
            for function, done in calls:
                settle(function, done)
            self._turn()

    def _linger(self) -> None:
        """Wait for company until a request has waited `max_wait` seconds, or is due before that."""
        while self._queue and not self._calls and not self._closed:
            end = min(job.arrived for job in self._queue) + self.max_wait
            hurry = any(job.deadline is not None and job.deadline < end for job in self._queue)
            left = end - time.perf_counter()
            if left <= 0 or hurry or len(self._queue) >= self.max_queue:
                return
            self._work.wait(left)

    def _turn(self) -> None:
        """One pass."""
        jobs = self._candidates()
        if not jobs:
            return
        self._running = jobs
        try:
            outcomes = self._step(jobs)
        except BaseException as error:  # whatever it is, this thread goes on
            outcomes = [(job, error_of(error)) for job in jobs]
        for job, outcome in outcomes:
            self._finish(job, outcome)
        with self._room:
            self._running = []
            self._queue = [job for job in self._queue if not job.ended]
            left = [job for job in jobs if self._closed and not job.ended]
            self._room.notify_all()
        for job in left:
            self._finish(job, closed())

    def _finish(self, job: Job, outcome: Any) -> None:
        """A job is over. Whatever a callback of its future raises (a future lets what is no
        `Exception` through), the thread goes on for all others."""
        for act in (partial(self._over, job), partial(self.end, job, outcome)):
            try:
                act()
            except BaseException as error:
                told = (type(error), error, error.__traceback__, threading.current_thread())
                threading.excepthook(threading.ExceptHookArgs(told))

    def _candidates(self) -> list[Job]:
        """Jobs of the first one's group in their order; those that nobody waits for are ended."""
        with self._room:
            self._sweep()
            alive = self._queue = sorted(self._queue, key=lambda j: j.rank)
            over, self._gone = self._gone, []
            if over:
                self._room.notify_all()
        for job in over:
            self._finish(job, late())
        return [job for job in alive if job.group == alive[0].group]
