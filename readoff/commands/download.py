"""The demonstration model's download, with progress that suits a terminal or a log."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from readoff.commands.output import note
from readoff.engine import fetch

DEMO_NAMES = ("demo", "demo-base")
"""What the demonstration model is called: with its adapter, and without."""


def fetch_demo_for(model: str) -> None:
    """Fetch the demonstration model where `model` names it, with or without its adapter. Raises
    DownloadError as `demo_model` does."""
    if model in DEMO_NAMES:
        demo_model()


def demo_model() -> Path:
    """The demonstration model's file, downloaded first if need be, with progress on stderr.

    Raises:
        DownloadError: it isn't there and can't be had; the message says what to do.
    """
    known = fetch.demo_path()
    if not known.exists():
        note(f"fetching the demonstration model (0.5 GB, once) into {known.parent}")
    return fetch.fetch_demo(True if sys.stderr.isatty() else LineProgress())


class LineProgress:
    """Progress for logs: now and then a line, instead of a moving bar.

    A line for each tenth, none within `pause` seconds of the one before, and one at the end.
    """

    def __init__(self, pause: float = 2.0) -> None:
        self._pause = pause
        self._told = -1
        self._next = time.monotonic() + pause

    def __call__(self, what: str, done: int, total: int) -> None:
        tenth = 10 * done // total if total else 0
        if tenth == self._told or (done < total and time.monotonic() < self._next):
            return
        self._told = tenth
        self._next = time.monotonic() + self._pause
        note(f"  {what}: {done / 1e6:.0f} of {total / 1e6:.0f} MB")
