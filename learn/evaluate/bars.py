"""Progress of an evaluation on stderr: bars on a terminal, now and then a line in a log."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

PAUSE = 20.0
"""Seconds between two lines about the same thing in a log."""


@contextmanager
def bars() -> Iterator[Callable[[str, int, int], None]]:
    """What is called with (what, done, of how many); 0 of how many means that nobody knows."""
    if not sys.stderr.isatty():
        last: dict[str, float] = {}

        def line(what: str, done: int, total: int) -> None:
            now = time.monotonic()
            if (done and done == total) or now - last.setdefault(what, now) >= PAUSE:
                last[what] = now
                of = f" of {total}" if total else ""
                print(f"  {what}: {done}{of}", file=sys.stderr, flush=True)

        yield line
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=28),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True)) as shown:
        tasks: dict[str, Any] = {}

        def bar(what: str, done: int, total: int) -> None:
            if what not in tasks:
                tasks[what] = shown.add_task(what, total=total or None)
            shown.update(tasks[what], completed=done, total=total or None)

        yield bar
