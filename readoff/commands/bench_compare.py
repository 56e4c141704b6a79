"""`readoff bench compare`: what became slower or worse between two results."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from readoff.commands import options
from readoff.commands.output import note, print_json

if TYPE_CHECKING:
    from readoff.bench.compare import Comparison

Result = Annotated[Path, typer.Argument(metavar="RESULT.json", show_default=False)]
STYLES = {"slower": "red", "faster": "green"}


def compare(before: Result, after: Result, json_output: options.Json = False) -> None:
    """Flag what became slower or worse beyond noise; exit status 1 when something did.

    Example:

        readoff bench compare before/result.json after/result.json
    """
    from readoff.bench.compare import compare as compared
    from readoff.bench.report.result import load

    found = compared(load(before), load(after))
    for warning in found.warnings:
        note(f"readoff: warning: {warning}")
    if json_output:
        print_json(asdict(found))
    else:
        _show(found)
    if found.regressions or not found.changes:
        raise typer.Exit(1)


def _show(found: Comparison) -> None:
    console = Console()
    if not console.is_terminal:
        console = Console(width=max(console.width, 110))
    table = Table(box=SIMPLE_HEAD)
    table.add_column("workload")
    table.add_column("rung")
    for name in ("before ms", "after ms", "times as long", "in the opponent's time", "verdict"):
        table.add_column(name, justify="right", no_wrap=True)
    for one in found.changes:
        relative = "–" if one.relative is None else _interval(*one.relative)
        cells = [one.workload, one.rung, f"{one.before_ms:,.1f}", f"{one.after_ms:,.1f}"]
        cells += [_interval(one.ratio, one.low, one.high), relative, one.verdict]
        table.add_row(*map(escape, cells), style=STYLES.get(one.verdict))
    console.print(table)
    for line in found.regressions:
        console.print(f"regression: {line}", markup=False, highlight=False, style="red")
    if not found.regressions:
        console.print("no regression beyond noise", highlight=False)


def _interval(ratio: float, low: float, high: float) -> str:
    return f"{ratio:.2f} [{low:.2f}, {high:.2f}]"
