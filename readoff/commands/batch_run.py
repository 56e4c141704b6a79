"""What `readoff batch` does: read, decide in chunks, write, sum up."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import islice

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from readoff.commands import batch_rows as rows
from readoff.commands.batch_files import MAX_LINE, Line, Lines, Output
from readoff.commands.errors import BatchError
from readoff.commands.output import note
from readoff.engine.errors import RequestError

CHUNK_BYTES = 32 << 20
"""Lines of a chunk are in memory together; a chunk ends early where they are long."""

PAUSE = 5.0
"""Seconds between two lines of progress in a log."""


@dataclass
class Summary:
    """What a run did. `rows` it answered or refused, `resumed` rows that were there before,
    `errors` among both, `resumed_errors` of them there before; tokens it computed and tokens that
    needn't be; what it took."""

    rows: int = 0
    errors: int = 0
    resumed: int = 0
    resumed_errors: int = 0
    tokens_computed: int = 0
    tokens_saved: int = 0
    seconds: float = 0.0

    @property
    def rows_per_second(self) -> float:
        """Of this run."""
        return self.rows / self.seconds if self.seconds > 0 else 0.0

    def to_json(self) -> dict[str, float]:
        """JSON values."""
        return asdict(self) | {"rows_per_second": self.rows_per_second}

    def __str__(self) -> str:
        many = [f"{self.rows:,} row{'s' * (self.rows != 1)}"]
        if self.resumed:
            many.append(f"{self.resumed:,} there before")
        before = f" ({self.resumed_errors:,} of them there before)" if self.resumed_errors else ""
        many.append(f"{self.errors:,} error{'s' * (self.errors != 1)}{before}")
        many.append(f"{self.tokens_computed:,} tokens computed, {self.tokens_saved:,} saved")
        return ", ".join([*many, f"{self.seconds:.1f} s, {self.rows_per_second:.1f} rows/s"])


def run(
    load: Callable[[], rows.Deciding],
    lines: Lines,
    output: Output,
    *,
    chunk: int,
    legal_mass: bool = False,
    strict: bool = False,
) -> Summary:
    """Answer every line that isn't answered yet. `load` makes the engine, if there is any.

    Raises BatchError where files and input don't go together, where one can't be written, and with
    `strict` at the first request that is wrong, all before it written, or at once where an earlier
    run left an error; and what the engine raises that isn't a request's fault.
    """
    summary = Summary()
    waiting = iter(lines)
    summary.resumed = skip_done(waiting, output.done, lines.name, output.name)
    summary.errors = summary.resumed_errors = len(output.errors)
    if strict and output.errors:
        raise BatchError(
            f"{output.name}, line {output.errors[0]}, is an error of an earlier run, and --strict "
            "takes none. Delete that line and those after it and mend the request, or leave "
            "--strict out."
        )
    found = _chunk(waiting, chunk)
    engine = load() if found else None
    output.begin()
    start = time.perf_counter()
    with progress(lines.total) as tell:
        while engine is not None and found:
            tell(summary.resumed + summary.rows)
            made = [_parse(line, legal_mass) for line in found]
            rows.decide(engine, made)
            _write(made, output, summary, strict)
            found = _chunk(waiting, chunk)
        tell(summary.resumed + summary.rows)
    summary.seconds = time.perf_counter() - start
    return summary


def skip_done(lines: Iterator[Line], done: Sequence[str], name: str, answers: str) -> int:
    """Pass over the lines that are answered; how many. Raises BatchError if they are others."""
    for number, digest in enumerate(done, 1):
        line = next(lines, None)
        if line is None:
            raise BatchError(
                f"{answers} has {len(done)} answers, and {name} only {number - 1} requests. Was it "
                "made from another input? --force replaces it."
            )
        if line.digest != digest:
            raise BatchError(
                f"{answers}, line {number}, doesn't answer line {number} of {name} with these "
                "options. Give the same input, model, card and number format to go on; --force "
                "replaces the file."
            )
    return len(done)


def _chunk(lines: Iterator[Line], most: int) -> list[Line]:
    found: list[Line] = []
    size = 0
    for line in islice(lines, most):
        found.append(line)
        size += len(line.text or b"")
        if size >= CHUNK_BYTES:
            break
    return found


def _parse(line: Line, legal_mass: bool) -> rows.Row:
    if line.text is None:
        error = RequestError(f"The line is longer than {MAX_LINE >> 20} MiB.")
        return rows.Row(line.number, line.digest, error=error)
    return rows.parse(line.text, line.number, line.digest, legal_mass=legal_mass)


def _write(made: Sequence[rows.Row], output: Output, summary: Summary, strict: bool) -> None:
    for row in made:
        text = rows.render(row)
        if strict and row.error is not None:
            raise BatchError(f"Line {row.number}: {row.error} Every line before it is answered.")
        output.write(text)
        summary.rows += 1
        if row.decision is None:
            summary.errors += 1
        else:
            usage = row.decision.usage
            summary.tokens_computed += usage.computed_tokens
            summary.tokens_saved += usage.cached_tokens


@contextmanager
def progress(total: int | None) -> Iterator[Callable[[int], None]]:
    """A bar on a terminal, now and then a line in a log; both on stderr."""
    if not sys.stderr.isatty():
        last = time.monotonic()

        def line(done: int) -> None:
            nonlocal last
            if time.monotonic() - last >= PAUSE:
                last = time.monotonic()
                note(f"  {done:,}{'' if total is None else f' of {total:,}'} rows")

        yield line
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=28),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True)) as bars:
        task = bars.add_task("rows", total=total)
        yield lambda done: bars.update(task, completed=done)
