"""`Job`: one request on its way through the scheduler, and the `Ticket` that its caller holds."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from readoff.engine.line import Line

_NUMBERS = itertools.count()


class Group(NamedTuple):
    """What a pass can only do for all its jobs or for none: overrides of kernels, legal mass."""

    kernels: tuple[tuple[str, str], ...] = ()
    legal_mass: bool = False


@dataclass(frozen=True)
class Reads:
    """What came out of a pass for one line: a number for each label."""

    logits: list[float]
    probabilities: list[float]
    legal_mass: float | None


@dataclass(eq=False)
class Job:
    """A request: its lines, and where it stands.

    Only jobs of one `group` share a pass. `finish`
    makes the result from the reads, one a line, once all are there; what it raises is the job's
    error. `deadline` is a time of `time.perf_counter`, or None. Jobs of a higher `priority` go
    first, then those that came first. `owner` is kept alive until the job is over.
    """

    lines: list[Line]
    group: Group
    finish: Callable[[Job], Any]
    priority: int = 0
    deadline: float | None = None
    ticket: Future[Any] = field(default_factory=Future)
    arrived: float = field(default_factory=time.perf_counter)
    number: int = field(default_factory=lambda: next(_NUMBERS))
    reads: list[Reads] = field(default_factory=list)
    computed: int = 0
    ended: bool = False
    owner: object = None

    @property
    def rank(self) -> tuple[int, int]:
        """Smaller goes first."""
        return (-self.priority, self.number)

    @property
    def remaining(self) -> list[Line]:
        """The lines that no pass has taken yet."""
        return self.lines[len(self.reads) :]

    def left(self) -> float | None:
        """Seconds until its deadline, or None."""
        return None if self.deadline is None else max(0.0, self.deadline - time.perf_counter())

    def expired(self, now: float) -> bool:
        """Whether its deadline has passed."""
        return self.deadline is not None and now > self.deadline
