"""`Crew`: several passes at once, each with its share of the threads.

Between the large products a pass has thousands of small operators, which one thread does while the
others of its team wait: a quarter of the time of two threads, as measured. Two passes of one thread
each fill that.
"""

from __future__ import annotations

import contextvars
import queue
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, wait
from functools import partial
from types import TracebackType
from typing import Any, TypeVar

import torch

from readoff.engine.compute import settle

In = TypeVar("In")
Out = TypeVar("Out")


class Crew:
    """A context: `size` workers that share the caller's threads. Of size 1 it is the caller.

    The workers are daemons: a process that is told to end at once waits for no pass.
    """

    def __init__(self, size: int) -> None:
        """At most `size` workers, and never more than there are threads."""
        self._threads = torch.get_num_threads()
        self.size = max(1, min(size, self._threads))
        self._work: queue.SimpleQueue[tuple[Callable[[], Any], Future[Any]] | None]
        self._work = queue.SimpleQueue()
        self._workers: list[threading.Thread] = []

    def __enter__(self) -> Crew:
        if self.size > 1:
            share, more = divmod(self._threads, self.size)
            for number in range(self.size):
                count = share + (number < more)
                worker = threading.Thread(
                    target=self._serve, args=(count,), name=f"readoff pass {number}", daemon=True
                )
                worker.start()
                self._workers.append(worker)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        workers, self._workers = self._workers, []
        for _ in workers:
            self._work.put(None)
        for worker in workers:
            worker.join()
        if workers:
            # torch keeps one number for threads that are new to it: the workers' was the last.
            torch.set_num_threads(self._threads)

    def _serve(self, threads: int) -> None:
        torch.get_num_threads()  # a thread's first use takes over whatever number was set last
        torch.set_num_threads(threads)
        while (item := self._work.get()) is not None:
            function, done = item
            if done.set_running_or_notify_cancel():
                settle(function, done)
            del item, function, done  # what was computed is its taker's, and not kept here

    def map(self, work: Callable[[In], Out], items: Iterable[In]) -> Generator[Out]:
        """`work` of every item, in their order, at most `size` ahead of what was taken.

        What one raises is raised in its turn. Whoever stops taking waits for what has begun.
        """
        if not self._workers:
            yield from map(work, items)
            return
        running: deque[Future[Out]] = deque()
        try:
            for item in items:
                done: Future[Out] = Future()
                self._work.put((partial(contextvars.copy_context().run, work, item), done))
                running.append(done)
                if len(running) > self.size:
                    yield running.popleft().result()
            while running:
                yield running.popleft().result()
        finally:
            for future in running:
                future.cancel()
            wait(running)
