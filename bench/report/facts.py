"""The tables of a report that tell of anything but rungs: quality, opponents, the machine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from readoff.bench.report.blocks import Table
from readoff.bench.report.document import Document, Row
from readoff.bench.report.tables import number


def quality(rows: Sequence[Row]) -> list[Table]:
    """Accuracy and calibration, by kind of confidence; what a gate accepts, where there is one."""
    metrics = ("accuracy", "nll", "brier", "ece", "calibrated_ece")
    gated = ("accepted", "accepted_accuracy") if any("accepted" in row for row in rows) else ()
    body = [
        [
            f"{row['rung']}, {row['kind']}",
            row["workload"],
            str(row["n"]),
            *(_metric(row, key) for key in (*metrics, *gated)),
        ]
        for row in rows
    ]
    head = ["confidence", "data", "decisions", "accuracy", "NLL", "Brier", "ECE", "if calibrated"]
    head += ["accepted", "their accuracy"] if gated else []
    return [Table(head, body, left=frozenset({0, 1}))] if body else []


def opponents(found: Sequence[Row]) -> Iterator[Table]:
    """One table an endpoint."""
    for one in found:
        body = [
            [
                str(level["concurrency"]),
                str(level["requests"]),
                *(number(level[f"{p}_ms"]) for p in ("p50", "p95", "p99")),
                number(level["decisions_per_s"]),
                ", ".join(f"{n}× {why}" for why, n in level["failures"].items()) or "none",
            ]
            for level in one["levels"]
        ]
        head = ["in flight", "requests", "p50 ms", "p95 ms", "p99 ms", "decisions/s", "failures"]
        caption = f"{one['url']} ({one['kind']}, {one['model']}) on {one['workload']}"
        yield Table(head, body, left=frozenset({6}), caption=caption)


def machine(document: Document) -> Iterator[Table]:
    """Whatever is needed to repeat the run, and the ceilings that shares are of."""
    facts: dict[str, Any] = dict(document.get("settings") or {})
    about = document.get("machine") or {}
    facts |= {k: v for k, v in about.items() if k not in ("kernels", "versions", "demo_model")}
    commit = document.get("commit")
    if commit:
        facts["commit"] = commit["id"] + (", changed since" if commit["dirty"] else "")
    facts |= {f"ceiling, {name}": f"{value:.3g}" for name, value in document["ceilings"].items()}
    facts |= about.get("versions") or {}
    facts["took"] = f"{document.get('seconds') or 0:.0f} s"
    rows = [[name.replace("_", " "), _told(value)] for name, value in facts.items()]
    yield Table(["", ""], [row for row in rows if row[1]], left=frozenset({0, 1}))


def _told(value: Any) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value))
    if isinstance(value, Mapping):
        return ", ".join(f"{k} {v}" for k, v in value.items())
    return "" if value is None else str(value)


def _metric(row: Row, key: str) -> str:
    value = row.get(key)
    return "–" if value is None else f"{value:.3f}"
