"""What is seen while a bench runs: bars and a table on a terminal, lines in a log."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType

from rich.box import SIMPLE_HEAD
from rich.console import Console, Group
from rich.live import Live
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from readoff.bench.ladder_result import Progress as Step
from readoff.bench.records import RungReport, Speedup
from readoff.bench.report.result import gate_word

PHASES = {
    "prepare": "preparing",
    "yardstick": "measuring rounding",
    "gate": "comparing answers",
    "measure": "timing",
}
WIDE = 120
PAUSE = 5.0
"""Seconds between two lines about the same thing in a log."""


class LiveWatch:
    """Bars and a table of the rungs at hand, drawn over and over. Use as a context manager."""

    def __init__(self, console: Console) -> None:
        columns = (
            TextColumn("{task.description}"),
            BarColumn(bar_width=28),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
        )
        self._bars = Progress(*columns, console=console)
        self._run = self._bars.add_task("workloads", total=None)
        self._phase = self._bars.add_task("starting", total=None)
        self._rows: dict[str, tuple[str, str]] = {}
        self._title = ""
        self._console = console
        self._live = Live(console=console, refresh_per_second=4, get_renderable=self._drawn)

    def __enter__(self) -> LiveWatch:
        self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._live.stop()

    def stage(self, text: str) -> None:
        """Something that isn't a workload begins."""
        self._bars.reset(self._phase, total=None, description=escape(text))

    def workload(self, name: str, number: int, total: int) -> None:
        """The table starts anew."""
        self._rows, self._title = {}, name
        self._bars.update(self._run, completed=number - 1, total=total)

    def progress(self, progress: Step) -> None:
        """One request more."""
        text = escape(f"{PHASES[progress.phase]} {progress.rung}".strip())
        self._bars.update(
            self._phase, description=text, completed=progress.done, total=progress.total or None
        )
        if progress.rung:
            middle = _middle(progress.seconds)
            self._rows[progress.rung] = (PHASES[progress.phase], middle)

    def reports(self, reports: Sequence[RungReport]) -> None:
        """A workload's own table stays above the bars."""
        if reports:
            self._console.print(finished(reports, self._console.width))
        self._rows = {}
        self._bars.advance(self._run)

    def _drawn(self) -> Group:
        table = Table(title=escape(self._title) or None, box=SIMPLE_HEAD, title_justify="left")
        for name in ("rung", "now", "median ms"):
            table.add_column(name, justify="right" if name == "median ms" else "left")
        for rung, (phase, middle) in self._rows.items():
            table.add_row(rung, phase, middle)
        return Group(self._bars, *([table] if self._rows else []))


class LineWatch:
    """The same in lines, for a log: now and then one that says how far it is."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._workload = ""
        self._last = ""
        self._next = 0.0

    def stage(self, text: str) -> None:
        """One line."""
        self._say(text)

    def workload(self, name: str, number: int, total: int) -> None:
        """One line."""
        self._workload = f"{name} ({number} of {total})"
        self._say(self._workload)

    def progress(self, progress: Step) -> None:
        """A line when the phase changes, and every few seconds."""
        phase = PHASES[progress.phase]
        now = time.monotonic()
        if phase == self._last and now < self._next:
            return
        self._last, self._next = phase, now + PAUSE
        what = f"{phase} {progress.rung}".strip()
        self._say(f"  {what}, {progress.done} of {progress.total}")

    def reports(self, reports: Sequence[RungReport]) -> None:
        """The workload's table."""
        if reports:
            self._console.print(finished(reports, self._console.width))

    def _say(self, text: str) -> None:
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)


@contextmanager
def watching(console: Console) -> Iterator[LiveWatch | LineWatch]:
    """The one that suits the console."""
    if console.is_terminal:
        with LiveWatch(console) as live:
            yield live
    else:
        yield LineWatch(console)


def finished(reports: Sequence[RungReport], width: int) -> Table:
    """What a workload came to; intervals where `width` characters have room for them."""
    table = Table(
        title=escape(reports[0].workload), box=SIMPLE_HEAD, title_justify="left", show_edge=False
    )
    against = [n for n in ("L0", "L1", "L1j", "L2t") if any(n in r.speedups for r in reports)]
    table.add_column("rung")
    for name in ("median ms", *(f"over {n}" for n in against), "gate"):
        table.add_column(name, justify="right", no_wrap=True)
    for report in reports:
        found = [report.speedups.get(name) for name in against]
        ratios = [_ratio(one, width >= WIDE) for one in found]
        word = gate_word(report.gate)
        cells = [report.name, _middle(report.seconds), *ratios, word]
        table.add_row(*map(escape, cells), style="red" if word == "red" else None)
    return table


def _ratio(found: Speedup | None, whole: bool) -> str:
    if found is None:
        return "–"
    interval = f" [{found.low:.2f}, {found.high:.2f}]" if whole else ""
    return f"{found.ratio:.2f}×{interval}"


def _middle(seconds: Sequence[float]) -> str:
    return f"{statistics.median(seconds) * 1e3:,.1f}" if seconds else "–"
