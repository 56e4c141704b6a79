"""`Crew`: several passes at once, each with its share of the threads.

Between the large products a pass has thousands of small operators, which one thread does while the
others of its team wait: a quarter of the time of two threads, as measured. Two passes of one thread
each fill that.
"""

from __future__ import annotations

import contextvars
from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from types import TracebackType
from typing import TypeVar

import torch

In = TypeVar("In")
Out = TypeVar("Out")


class Crew:
    """A context: `size` workers that share the caller's threads. Of size 1 it is the caller."""

    def __init__(self, size: int) -> None:
        """At most `size` workers, and never more than there are threads."""
        self._threads = torch.get_num_threads()
        self.size = max(1, min(size, self._threads))
        self._pool: ThreadPoolExecutor | None = None

    def __enter__(self) -> Crew:
        if self.size > 1:
            share = self._threads // self.size
            self._pool = ThreadPoolExecutor(
                self.size, "readoff pass", initializer=torch.set_num_threads, initargs=(share,)
            )
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None
            # torch keeps one number for threads that are new to it: the workers' was the last.
            torch.set_num_threads(self._threads)

    def map(self, work: Callable[[In], Out], items: Iterable[In]) -> Generator[Out]:
        """`work` of every item, in their order, at most `size` ahead of what was taken.

        What one raises is raised in its turn. Whoever stops taking waits for what has begun.
        """
        if self._pool is None:
            yield from map(work, items)
            return
        running: deque[Future[Out]] = deque()
        try:
            for item in items:
                context = contextvars.copy_context()
                running.append(self._pool.submit(context.run, work, item))
                if len(running) > self.size:
                    yield running.popleft().result()
            while running:
                yield running.popleft().result()
        finally:
            for future in running:
                future.cancel()
            wait(running)
