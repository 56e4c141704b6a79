"""What `readoff train` shows and prints while it trains, and what Ctrl-C or SIGTERM does to it."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from readoff.commands.download import fetch_demo_for
from readoff.commands.output import note, print_json

if TYPE_CHECKING:
    from readoff.learn.pace import Tick
    from readoff.learn.settings import Settings
    from readoff.learn.training import Source

PAUSE = 30.0
"""Seconds between two lines of progress in a log."""


def run(
    source: Source,
    data: Sequence[Path],
    out: Path,
    settings: Settings,
    *,
    resume: bool,
    force: bool,
    json_output: bool,
) -> None:
    """Train and print. Raises ReadoffError, and once the state is saved what the signal asks for:
    KeyboardInterrupt for Ctrl-C, SystemExit with 143 for SIGTERM."""
    from readoff.learn.training import train

    fetch_demo_for(source.model)
    with interruptible() as stop, progress() as tell:
        trained = train(
            source,
            data,
            out,
            settings,
            resume=resume,
            force=force,
            stop=stop,
            tell=tell,
            note=lambda text: note(f"note: {text}"),
        )
    for text in trained.notes:
        note(f"note: {text}")
    if json_output:
        print_json(trained.document)
    else:
        _summary(trained.document, out)
    if trained.ending == "interrupted":
        if trained.document["steps"]:
            note("interrupted; --resume goes on from here")
        else:
            note(f"interrupted before the first step was done: {out} is as it was")
        stop.end()


class Stop(threading.Event):
    """Set by a signal, which it remembers."""

    number: int = signal.SIGINT

    def end(self) -> NoReturn:
        """End the command as the signal asks for: schedulers send SIGTERM, and expect 143."""
        if self.number == signal.SIGTERM:
            raise SystemExit(128 + self.number)
        raise KeyboardInterrupt


@contextmanager
def interruptible() -> Iterator[Stop]:
    """An event that the first Ctrl-C or SIGTERM sets; the second one interrupts at once."""
    stop = Stop()

    def handle(number: int, frame: object) -> None:
        again, stop.number = stop.is_set(), number
        if again:
            stop.end()
        stop.set()
        note("interrupted: saving what has been trained (again: stop at once)")

    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def progress() -> Iterator[Callable[[Tick], None]]:
    """A bar on a terminal, now and then a line in a log; both on stderr."""
    if not sys.stderr.isatty():
        last = -PAUSE

        def line(tick: Tick) -> None:
            nonlocal last
            if time.monotonic() - last >= PAUSE:
                last = time.monotonic()
                note(f"  {tick.what}: {tick.step} of {tick.steps} steps{_told(tick)}")

        yield line
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        TextColumn("{task.fields[told]}"),
    )
    with Progress(*columns, console=Console(stderr=True)) as bars:
        task = bars.add_task("loading", total=None, told="")

        def bar(tick: Tick) -> None:
            training = tick.what == "training"
            bars.update(
                task,
                description=tick.what,
                total=float(tick.steps) if training else 1.0,
                completed=tick.step + tick.share if training else tick.share,
                told=f"{tick.step}/{tick.steps}{_told(tick)}",
            )

        yield bar


def _told(tick: Tick) -> str:
    """The numbers that are known, each after a separator."""
    parts = []
    if tick.loss is not None:
        parts.append(f"loss {tick.loss:.3f}")
    if tick.best is not None:
        parts.append(f"best validation NLL {tick.best:.3f}")
    if tick.speed is not None:
        parts.append(f"{tick.speed:.0f} tokens/s")
    if tick.left is not None:
        parts.append(f"{_clock(tick.left)} left")
    return "".join(f" · {part}" for part in parts)


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def _summary(document: Mapping[str, Any], out: Path) -> None:
    """What was made, how good it is, and what it took."""
    speed, peak = document["tokens_per_second"], document["peak_bytes"]
    print(
        f"{document['steps']} steps, {document['questions']} questions, {document['tokens']} "
        f"tokens in {_clock(document['training_seconds'])}"
        f"{'' if speed is None else f' ({speed:.0f} tokens/s)'}"
        f"{'' if peak is None else f', {peak / 1e9:.1f} GB of memory at most'}"
    )
    before, best = document["valid"]["before"], document["valid"]["best"]
    if before is not None and best is not None:
        for key, name in (("nll", "NLL"), ("brier", "Brier"), ("accuracy", "accuracy")):
            print(f"  validation {name:9}{before[key]:.4f} -> {best[key]:.4f}")
        print(f"the adapter of step {document['best_step']}: {out}")
