"""What the bench is asked to show, what it measured, and why a target was missed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from readoff.bench.report.document import Document, Row, axis, interval, rung, sharing_bound
from readoff.bench.report.document import workloads as of_kinds


@dataclass(frozen=True)
class Target:
    """`asked` times faster than `against` in the case `where`."""

    name: str
    where: str
    against: str
    asked: float


TARGETS = (
    Target("one cold decision against plain JSON", "paper", "L0", 5.2),
    Target("one cold decision against strong JSON", "paper", "L1", 3.0),
    Target("warm state against strong JSON", "warm", "L1", 8.0),
    Target("warm state against the first-token readout", "warm", "L2t", 4.0),
    Target("eight questions against strong JSON", "eight", "L1", 8.0),
    Target("eight questions against the first-token readout", "eight", "L2t", 4.0),
)

FEWEST = 3
"""Timed requests below which an interval says nothing."""

COLD = ("L4", "L3")
WARM = ("L5",)


def judge(document: Document) -> list[dict[str, Any]]:
    """One row a target and workload that measured it."""
    found = []
    for target in TARGETS:
        for workload, names in _cases(document, target.where):
            for name in names:
                row = rung(document, workload["name"], name)
                measured = None if row is None else interval(row, target.against)
                if row is not None and measured is not None:
                    found.append(_judged(document, target, workload, row, measured))
                    break
    return found


def _cases(document: Document, where: str) -> list[tuple[Row, tuple[str, ...]]]:
    if where == "paper":
        return [(w, COLD) for w in of_kinds(document, "paper")]
    if where == "warm":
        return [(w, WARM) for w in of_kinds(document, "paper")]
    eight = [w for w in of_kinds(document, "many") if axis(w, "questions") == 8]
    return [(w, COLD) for w in eight]


def _judged(
    document: Document,
    target: Target,
    workload: Row,
    row: Row,
    measured: tuple[float, float, float],
) -> dict[str, Any]:
    ratio, low, high = measured
    met = ratio >= target.asked
    other = rung(document, workload["name"], target.against)
    enough = row["requests"] >= FEWEST
    sure = enough and (low >= target.asked if met else high < target.asked)
    return {
        "name": target.name,
        "workload": workload["name"],
        "rung": row["name"],
        "against": target.against,
        "asked": target.asked,
        "ratio": ratio,
        "low": low,
        "high": high,
        "met": met,
        "sure": sure,
        "why": _why(workload, row, other, ratio),
    }


def _why(workload: Row, row: Row, other: Row | None, ratio: float) -> str:
    """Where the number comes from, in the terms of the model that predicts it."""
    if other is None:
        return ""
    parts = []
    model = other.get("json_model")
    if model:
        parts.append(
            f"{other['name']} writes {model['tokens']:.1f} tokens a decision at "
            f"{model['token_ms']:.0f} ms each, its prefill takes {model['prefill_ms']:.0f} ms: "
            f"1 + n·t_token/t_prefill = {model['ratio']:.1f} against its own prefill"
        )
    computed = [r["tokens_computed"] / max(r["decisions"], 1) for r in (other, row)]
    if computed[1] and computed[0] > 1.05 * computed[1]:
        parts.append(
            f"tokens computed a decision: {other['name']} {computed[0]:.0f}, "
            f"{row['name']} {computed[1]:.0f}, {computed[0] / computed[1]:.1f} times fewer"
        )
    sizes = [axis(workload, name) for name in ("state_tokens", "questions", "question_tokens")]
    if other["name"] == "L2t" and row["name"] == "L4" and None not in sizes:
        bound = sharing_bound(*(float(size or 0) for size in sizes))
        if bound > 1.01:
            parts.append(f"sharing bound {bound:.1f}, reached {ratio:.1f}")
    return "; ".join(parts) + "." if parts else ""
