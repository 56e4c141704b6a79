"""How the demonstration's report looks: a table for people, a document for programs."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from readoff.commands.demo_run import CaseReport, DecisionRow, Report

if TYPE_CHECKING:
    from readoff.bench.json_generate import Generated

MIN_WIDTH = 120
"""Columns of the table where there is no terminal that says how many it has."""

WIDE, NARROW = 20, 13
"""Characters of an option's name in the table: as an answer, and among the probabilities. The rest
is an ellipsis; --json has names whole."""


def show(report: Report) -> None:
    """Print the tables and the comparison on stdout."""
    console = Console()
    if not console.is_terminal:
        console = Console(width=max(console.width, MIN_WIDTH))
    console.print(
        f"[bold]{escape(report.model)}[/] on {report.device}, {report.dtype}, "
        f"{_count(report.threads, 'thread')}"
    )
    for case in report.cases:
        console.print()
        console.print(_table(case, with_json=bool(report.generated)))
    console.print()
    for line in summary(report):
        console.print(line, highlight=False)


def _table(case: CaseReport, *, with_json: bool) -> Table:
    title = (
        f"{case.title}: {len(case.rows)} decisions in one pass over {case.computed_tokens} tokens, "
        f"{_time(case.seconds)}"
    )
    table = Table(title=title, title_justify="left", title_style="bold", box=SIMPLE_HEAD)
    for name in ("family", "question", "answer"):
        table.add_column(name)
    table.add_column("probabilities")
    for name in ("confidence", "alone"):
        table.add_column(name, justify="right", no_wrap=True)
    if with_json:
        table.add_column("as JSON")
        table.add_column("took", justify="right", no_wrap=True)
    for row in case.rows:
        cells = [row.family, row.name, *_answer_cells(row), _time(row.alone)]
        if row.generated is not None:
            cells += [_said(row.generated), _time(row.generated.seconds)]
        table.add_row(*map(escape, cells))
    return table


def _answer_cells(row: DecisionRow) -> tuple[str, str, str]:
    """(answer, probabilities, confidence)."""
    answer = row.answer
    if answer["type"] == "noul":
        true = answer["noul"]
        return ("true" if true >= 0.5 else "false"), f"true {true:.2f}", "–"
    probabilities = answer["probabilities"]
    confidence = f"{answer['confidence']:.2f}"
    if answer["type"] == "score":
        parts = (f"{level}: {p:.2f}" for level, p in probabilities.items())
        return f"{answer['score']:.2f}", ", ".join(parts), confidence
    ranked = sorted(probabilities.items(), key=lambda item: -item[1])
    shown = ", ".join(f"{_short(name, NARROW)} {p:.2f}" for name, p in ranked[:2])
    more = f", {len(ranked) - 2} more" if len(ranked) > 2 else ""
    return _short(answer["choice"]), shown + more, confidence


def _said(generated: Generated) -> str:
    """What the JSON came to: its value as JSON spells it, or why there is none."""
    if generated.failure is not None:
        return generated.failure
    value = generated.value
    return _short(value) if isinstance(value, str) else json.dumps(value)


def _short(name: str, limit: int = WIDE) -> str:
    return name if len(name) <= limit else name[: limit - 1].rstrip() + "…"


def _time(seconds: float) -> str:
    return f"{seconds * 1e3:.0f} ms" if seconds < 10 else f"{seconds:.1f} s"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def summary(report: Report) -> list[str]:
    """The comparison in words: what was timed, and how."""
    count = len(report.rows)
    cold = "cold" if not any(case.cached_tokens for case in report.cases) else "partly cached"
    rounds, threads = _count(report.repeats, "round"), _count(report.threads, "thread")
    same = "same weights"
    if report.model == "demo" and report.generation is not None:
        same = "same base (JSON without the adapter, which writes none)"
    lines = [
        f"Medians of {rounds}, {same}, {report.dtype}, {report.device}, {threads}, "
        f"in turns; prompts {cold}:",
        f"  {count} decisions read off, those about one state in one pass: "
        f"{_time(report.together)}",
        f"  {count} decisions read off one at a time: {_time(report.alone)}",
    ]
    if report.generation is None:
        return lines
    failures = sum(item.failure is not None for item in report.generated)
    tokens = sum(item.new_tokens for item in report.generated) / count
    lines += [
        f"  {count} decisions by greedy JSON generation: {_time(report.generation)} "
        f"({failures} of {count} unusable)",
        f"    (transformers' plain loop with KV cache, stopped at the closing brace: "
        f"{tokens:.0f} tokens on average)",
        f"[bold]Speed-up: {report.generation / report.together:.1f}×[/]; one at a time "
        f"{report.generation / report.alone:.1f}×",
    ]
    return lines


def as_json(report: Report) -> dict[str, Any]:
    """The report as one JSON-ready document; times in milliseconds."""
    document: dict[str, Any] = {
        "model": report.model,
        "device": report.device,
        "dtype": report.dtype,
        "threads": report.threads,
        "repeats": report.repeats,
        "states": [
            {
                "title": case.title,
                "readoff_ms": _ms(case.seconds),
                "input_tokens": case.input_tokens,
                "computed_tokens": case.computed_tokens,
                "cached_tokens": case.cached_tokens,
                "decisions": [_row(row) for row in case.rows],
            }
            for case in report.cases
        ],
        "readoff_ms": _ms(report.together),
        "readoff_one_at_a_time_ms": _ms(report.alone),
    }
    if report.generation is not None:
        document |= {
            "json_ms": _ms(report.generation),
            "json_failures": sum(item.failure is not None for item in report.generated),
            "speed_up": round(report.generation / report.together, 2),
            "speed_up_one_at_a_time": round(report.generation / report.alone, 2),
        }
    return document


def _row(row: DecisionRow) -> dict[str, Any]:
    made: dict[str, Any] = {
        "question": row.name,
        "family": row.family,
        "answer": row.answer,
        "alone_ms": _ms(row.alone),
    }
    if row.generated is not None:
        generated = asdict(row.generated)
        generated["ms"] = _ms(generated.pop("seconds"))
        made["generated"] = generated
    return made


def _ms(seconds: float) -> float:
    return round(seconds * 1e3, 2)
