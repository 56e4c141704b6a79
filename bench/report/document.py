"""Reading the JSON document of a run: what pictures, tables and comparisons look up in it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

Document: TypeAlias = Mapping[str, Any]
Row: TypeAlias = Mapping[str, Any]

OPPONENTS = ("L0", "L1", "L1j", "L2t")
"""The rungs that speed-ups are told against."""


def rung(document: Document, workload: str, name: str) -> Row | None:
    """What `name` did on `workload`, if it ran."""
    found = (r for r in document["rungs"] if r["workload"] == workload and r["name"] == name)
    return next(found, None)


def rungs(document: Document, workload: str) -> list[Row]:
    """Everything that ran on `workload`, in the order of the ladder."""
    return [row for row in document["rungs"] if row["workload"] == workload]


def workloads(document: Document, *kinds: str) -> list[Row]:
    """The workloads of these kinds that at least one rung ran on."""
    ran = {row["workload"] for row in document["rungs"]}
    return [w for w in document["workloads"] if w["kind"] in kinds and w["name"] in ran]


def axis(workload: Row, name: str) -> float | None:
    """A number of the workload that pictures are drawn over."""
    value = workload["axes"].get(name)
    return None if value is None else float(value)


def names(rows: Iterable[Row]) -> list[str]:
    """The rungs' names, each once, in order of appearance."""
    return list(dict.fromkeys(row["name"] for row in rows))


def sharing_bound(state: float, questions: float, question: float) -> float:
    """How much one pass can gain over one pass a question: Q(S+q)/(S+Qq)."""
    return questions * (state + question) / (state + questions * question)


def interval(row: Row, against: str) -> tuple[float, float, float] | None:
    """(ratio, low, high) of the speed-up against a rung, if it was measured."""
    ratio = row.get(f"speedup_vs_{against}")
    if ratio is None:
        return None
    low, high = row.get(f"speedup_vs_{against}_interval") or (ratio, ratio)
    return float(ratio), float(low), float(high)
