"""`Log`: one JSON object a line on stderr. What users send isn't in it unless that is asked for."""

from __future__ import annotations

import json
import queue
import sys
import threading
import time
import traceback
from typing import Any, TextIO

LEVELS = ("debug", "info", "warning", "error", "none")
_ROOM = 10_000


class Log:
    """Lines are written by a thread of its own, so that whoever reads them slowly holds nobody up;
    those that find no room are counted and said so."""

    def __init__(self, level: str = "info", stream: TextIO | None = None) -> None:
        self._least = LEVELS.index(level)
        self._stream = stream or sys.stderr
        self._lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._dropped = 0
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()

    def writes(self, level: str) -> bool:
        """Whether lines of this level come out."""
        return LEVELS.index(level) >= self._least

    def __call__(self, level: str, event: str, **fields: Any) -> None:
        """Write {"time", "level", "event", …fields}; fields that are None are left out."""
        if not self.writes(level):
            return
        entry = {"time": _now(), "level": level, "event": event}
        entry |= {name: value for name, value in fields.items() if value is not None}
        line = json.dumps(entry, ensure_ascii=True, default=str)
        if self._thread is None:
            with self._lock:
                if self._thread is None:
                    self._thread = threading.Thread(target=self._run, name="log", daemon=True)
                    self._thread.start()
        if self._lines.qsize() < _ROOM:
            self._lines.put(line)
        else:
            self._dropped += 1

    def close(self) -> None:
        """Write what waits, for two seconds at most."""
        thread, self._thread = self._thread, None
        if thread is not None:
            self._lines.put(None)
            thread.join(2.0)

    def _run(self) -> None:
        while (line := self._lines.get()) is not None:
            self._write(line)
            if self._lines.empty():
                self._confess()
        self._confess()

    def _confess(self) -> None:
        dropped, self._dropped = self._dropped, 0
        if dropped:
            lost = {"time": _now(), "level": "warning", "event": "log lines lost", "count": dropped}
            self._write(json.dumps(lost))

    def _write(self, line: str) -> None:
        try:
            self._stream.write(line + "\n")
            self._stream.flush()
        except (OSError, ValueError):
            pass  # nobody reads any more; a server doesn't stop for that


def where(error: BaseException) -> list[str]:
    """What was raised and where, cause by cause, without messages: they may quote a user."""
    found: list[str] = []
    seen: BaseException | None = error
    while seen is not None and len(found) < 8:
        frames = traceback.extract_tb(seen.__traceback__)[-6:]
        path = " < ".join(f"{f.filename}:{f.lineno} {f.name}" for f in reversed(frames))
        found.append(f"{type(seen).__name__} at {path}")
        seen = seen.__cause__
    return found


def _now() -> str:
    now = time.time()
    stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now))
    return f"{stamp}.{int(now % 1 * 1000):03d}Z"
