"""Progress of a download: a callback, or a bar on a terminal. No torch in this file."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Progress = Callable[[str, int, int], None]
"""Called with (what is happening, bytes done, bytes in all), from one thread at a time."""


@contextmanager
def showing(progress: Progress | bool | None) -> Iterator[Progress]:
    """The callback to report to: a callable as it is, True for a bar, False for silence.

    None draws the bar only where someone can see it: when standard error is a terminal.
    """
    if progress is None:
        progress = sys.stderr.isatty()
    if callable(progress):
        yield progress
    elif progress:
        with _bar() as report:
            yield report
    else:
        yield lambda what, done, total: None


@contextmanager
def _bar() -> Iterator[Progress]:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        TaskID,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )
    from rich.progress import Progress as Bar

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    tasks: dict[str, TaskID] = {}
    with Bar(*columns, console=Console(stderr=True)) as bar:

        def report(what: str, done: int, total: int) -> None:
            if what not in tasks:
                tasks[what] = bar.add_task(what, total=total)
            bar.update(tasks[what], completed=done, total=total)

        yield report
