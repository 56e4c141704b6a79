"""`Pace`: ends the timed rounds of a workload when its time is up."""

from __future__ import annotations

import time

from readoff.bench.ladder_result import Progress
from readoff.bench.selection import Effort


class Pace:
    """Ends a workload's timed rounds when its time is up, between two rounds."""

    def __init__(self, wanted: Effort) -> None:
        self.effort = wanted
        self.enough = False
        self._first: str | None = None
        self._started = 0.0

    def look(self, progress: Progress) -> None:
        """Raises the ladder's own signal to stop (Ctrl-C's) where another round would be late."""
        if progress.phase != "measure" or not self.effort.repeats:
            return
        now = time.perf_counter()
        if self._first is None:
            self._first, self._started = progress.rung, now
        requests = progress.total // self.effort.repeats
        rounds, rest = divmod(progress.done, requests)
        if progress.rung != self._first or rest or rounds < max(self.effort.least, 1):
            return
        spent = now - self._started
        if spent + spent / rounds > self.effort.seconds:
            self.enough = True
            raise KeyboardInterrupt
