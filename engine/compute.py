"""The one thread of a process on which CPU passes run, whoever asks for them.

OpenMP keeps a team of threads for every thread that has entered it, and libgomp stops letting idle
ones spin as soon as all teams together have more threads than there are processors: every parallel
region then begins with a sleeper's awakening. Measured on two cores: 118 ms for a warm question
where one team is there 65 ms. So loading, passes and moves of the cache all happen here; only a
training has threads of its own beside it (learn/crew.py).
"""

from __future__ import annotations

import contextvars
import os
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Any, TypeVar

R = TypeVar("R")

_Work = tuple[Callable[[], Any], "Future[Any]"]


class _Compute:
    """A daemon thread that lives as long as the process; a fork makes its own."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.work: queue.SimpleQueue[_Work] = queue.SimpleQueue()
        self.thread = threading.Thread(target=self._run, name="readoff compute", daemon=True)
        self.thread.start()

    def _run(self) -> None:
        while True:
            settle(*self.work.get())


_lock = threading.Lock()
_compute: _Compute | None = None


def on_compute_thread(function: Callable[[], R]) -> R:
    """`function()`, run there in this context; returns or raises what it does. From that thread
    itself it is an ordinary call."""
    compute = _current()
    if threading.current_thread() is compute.thread:
        return function()
    done: Future[R] = Future()
    compute.work.put((partial(contextvars.copy_context().run, function), done))
    try:
        return done.result()
    finally:
        del done  # an exception's traceback holds this frame, and the frame must not hold it


def settle(function: Callable[[], Any], done: Future[Any]) -> None:
    """Give what `function` returns or raises to `done`."""
    try:
        done.set_result(function())
    except BaseException as error:
        done.set_exception(error)


def _current() -> _Compute:
    global _compute
    found = _compute
    if found is None or found.pid != os.getpid():
        with _lock:
            if _compute is None or _compute.pid != os.getpid():
                _compute = _Compute()
            found = _compute
    return found


def _forget() -> None:
    """In a fork's child the lock may be held by a thread that isn't there."""
    global _lock
    _lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
