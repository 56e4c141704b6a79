"""`OnnxWorker`: the part of an `OnnxEngine` that runs: graph, cached pasts, one thread."""

from __future__ import annotations

import atexit
import gc
import math
import weakref
from dataclasses import asdict
from typing import Any

import numpy as np

from readoff.engine.errors import BudgetError
from readoff.engine.host import free_host_memory
from readoff.engine.scheduler import Scheduler
from readoff.engine.serving import Serving
from readoff.export.past import Past
from readoff.export.past_cache import PastCache
from readoff.export.running import STEP_TOKENS, Running
from readoff.export.session import GraphSession

_SHARE, _LARGEST = 8, 4 << 30
"""The cache takes one part in so many of the free memory by default, and at most so many bytes."""

_SHORTEST = 64
"""Tokens of the shortest prompt, about."""

_WORKERS: weakref.WeakSet[OnnxWorker] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    """No run may be under way while the interpreter goes down."""
    for worker in list(_WORKERS):
        worker.close()
    gc.unfreeze()


class OnnxWorker:
    """Runs a graph for the jobs that an engine makes, on a thread of its own.

    Raises BudgetError for a cache that couldn't hold the shortest prompt.
    """

    def __init__(
        self, session: GraphSession, serving: Serving, *, device: str = "cpu", name: str = "model"
    ) -> None:
        empty = empty_past(session)
        cache_bytes = serving.cache_bytes
        if cache_bytes is None:
            cache_bytes = min(free_host_memory() // _SHARE, _LARGEST)
        _check_budget(cache_bytes, session)
        self.cache_bytes = cache_bytes
        self.cache = PastCache(empty, cache_bytes) if cache_bytes else None
        self.running = Running(
            session,
            empty,
            self.cache,
            step_tokens=serving.step_tokens or STEP_TOKENS,
            device=device,
        )
        self.scheduler = Scheduler(
            self.running.step,
            max_queue=serving.max_queue,
            max_wait=serving.max_wait_ms / 1e3,
            name=f"readoff {name}",
            over=self.running.let_go,
        )
        _WORKERS.add(self)

    def stats(self) -> dict[str, Any]:
        """See `OnnxEngine.stats`."""
        told: dict[str, Any] = asdict(self.scheduler.counters)
        told["waiting"] = self.scheduler.depth
        told["steps"] = self.running.steps
        told["computed_tokens"] = self.running.computed
        if self.cache is not None:
            told["cache"] = {
                **asdict(self.cache.counters),
                "budget_bytes": self.cache.budget,
                "used_bytes": self.cache.used,
                "tokens": self.cache.tokens,
                "pasts": len(self.cache),
            }
        return told

    def clear(self) -> None:
        """Forget every cached past, between two runs."""
        self.scheduler.call(self.running.clear)

    def close(self, wait: bool = True) -> None:
        """End the thread; having waited for that, let go of what was cached."""
        self.scheduler.close(wait)
        if wait:
            self.running.clear()


def _check_budget(cache_bytes: int, session: GraphSession) -> None:
    """As the torch engine: 64 tokens, and the states after the preamble and after the state."""
    least = 0
    for carried in session.carried:
        grows = carried.kind in ("key", "value")
        values = math.prod(size for size in carried.past.shape if isinstance(size, int))
        least += values * np.dtype(carried.past.dtype).itemsize * (_SHORTEST if grows else 2)
    if 0 < cache_bytes < least:
        raise BudgetError(
            f"cache_bytes={cache_bytes} is less than the shortest prompt needs, {least}. "
            "Allow more, or set cache_bytes=0 to keep nothing."
        )


def empty_past(session: GraphSession) -> Past:
    """The past of no tokens: no keys and values, states and tails of zeros."""
    arrays = session.empty()
    growing = {c.past.name for c in session.carried if c.kind in ("key", "value")}
    grown = {name: array for name, array in arrays.items() if name in growing}
    whole = {name: array for name, array in arrays.items() if name not in growing}
    return Past(None, (), grown, whole)
