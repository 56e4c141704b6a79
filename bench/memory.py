"""`PeakMemory`: how much memory of its own the process held at most, sampled."""

from __future__ import annotations

import threading
from pathlib import Path
from types import TracebackType

_STATUS = Path("/proc/self/status")


class PeakMemory:
    """A context in which the process's anonymous resident memory is sampled every few
    milliseconds. Mapped weight files don't count; everything that is loaded does. Linux only:
    elsewhere `peak` stays None.
    """

    def __init__(self, interval: float = 0.005) -> None:
        self.peak: int | None = None
        self._interval = interval
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)

    def __enter__(self) -> PeakMemory:
        self.peak = anonymous_bytes()
        if self.peak is not None:
            self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._done.set()
        if self._thread.is_alive():
            self._thread.join()
        self._look()

    def _sample(self) -> None:
        while not self._done.wait(self._interval):
            self._look()

    def _look(self) -> None:
        now = anonymous_bytes()
        if now is not None:
            self.peak = max(now, self.peak or 0)


def anonymous_bytes() -> int | None:
    """The process's resident anonymous memory now, None where the system doesn't tell."""
    try:
        lines = _STATUS.read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return None
    for line in lines:
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    return None
