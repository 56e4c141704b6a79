"""The tables of a report that tell of rungs."""

from __future__ import annotations

from collections.abc import Sequence

from readoff.bench.report.blocks import Table
from readoff.bench.report.document import (
    OPPONENTS,
    Document,
    Row,
    axis,
    interval,
    names,
    rung,
    rungs,
    sharing_bound,
    workloads,
)


def targets(rows: Sequence[Row]) -> list[Table]:
    """Asked, measured, met or missed, and why."""
    body = [
        [
            _verdict(row),
            f"{row['ratio']:.2f}× [{row['low']:.2f}, {row['high']:.2f}]",
            f"{row['asked']:g}×",
            f"{row['name']} ({row['workload']}, {row['rung']} over {row['against']})",
            row["why"] or "–",
        ]
        for row in rows
    ]
    head = ["", "measured", "asked", "target", "where it comes from"]
    return [Table(head, body, left=frozenset({0, 3, 4}))]


def _verdict(row: Row) -> str:
    word = "met" if row["met"] else "missed"
    return word if row["sure"] else f"{word} (within noise)"


def ladder(document: Document, workload: Row) -> list[Table]:
    """Speed first, then what it cost."""
    rows = rungs(document, workload["name"])
    if not rows:
        return []
    against = [name for name in OPPONENTS if any(interval(row, name) for row in rows)]
    speed = [
        [
            row["name"],
            number(row["p50_ms"]),
            *(_ratio(row, name) for name in against),
            *(number(row[f"{p}_ms"]) for p in ("p95", "p99")),
            number(row["decisions_per_s"]),
            row["title"],
        ]
        for row in rows
    ]
    cost = [
        [
            row["name"],
            *(number(_each(row, key)) for key in ("tokens_computed", "tokens_generated")),
            str(row["failures"]),
            _rate(row, "bytes_per_s", 1e9),
            _rate(row, "flops_per_s", 1e12),
            "–" if row["peak_bytes"] is None else number(row["peak_bytes"] / 2**20),
            str(row["requests"]),
        ]
        for row in rows
    ]
    ratios = [f"× over {name}" for name in against]
    head = ["rung", "p50 ms", *ratios, "p95 ms", "p99 ms", "decisions/s", "what it is"]
    costs = ["rung", "tokens computed", "generated", "JSON failures", "GB/s", "TFLOP/s"]
    return [
        Table(
            head,
            speed,
            left=frozenset({0, len(head) - 1}),
            caption=f"{workload['name']}: a request, and how many times faster than the opponents",
        ),
        Table(
            [*costs, "peak MiB", "requests"],
            cost,
            caption=f"{workload['name']}: a decision's tokens, and shares of the measured ceilings",
        ),
    ]


def sharing(document: Document) -> list[Table]:
    """What sharing the state gains, beside what it can gain."""
    body = []
    for workload in workloads(document, "many"):
        apart, together = (rung(document, workload["name"], name) for name in ("L3", "L4"))
        sizes = [axis(workload, a) for a in ("state_tokens", "questions", "question_tokens")]
        if apart is None or together is None or None in sizes:
            continue
        if not apart["p50_ms"] or not together["p50_ms"]:  # a red gate
            continue
        state, questions, question = (float(size or 0) for size in sizes)
        gain = apart["p50_ms"] / together["p50_ms"]
        bound = sharing_bound(state, questions, question)
        body.append(
            [
                workload["name"],
                *(f"{size:g}" for size in (state, questions, question)),
                f"{gain:.2f}×",
                f"{bound:.2f}×",
                f"{gain / bound:.0%}",
            ]
        )
    head = ["workload", "state", "questions", "tokens each", "gain", "bound", "reached"]
    caption = "One pass for all questions (L4) over one pass each (L3); bound Q(S+q)/(S+Qq)"
    return [Table(head, body, caption=caption)] if body else []


def medians(document: Document, found: Sequence[Row]) -> list[Table]:
    """Milliseconds of every rung on every workload; the rest of each is in result.json."""
    ran = names(row for w in found for row in rungs(document, w["name"]))
    body = []
    for workload in found:
        cells = (rung(document, workload["name"], name) for name in ran)
        body.append([workload["name"], *(number(c["p50_ms"] if c else None) for c in cells)])
    caption = "Milliseconds a request, median"
    return [Table(["workload", *ran], body, caption=caption)] if body else []


def search(document: Document) -> list[Table]:
    """Milliseconds a step, both orders of the prompt side by side."""
    found = workloads(document, "search")
    ran = names(row for w in found for row in rungs(document, w["name"]))
    body = []
    for workload in found:
        cells = []
        for name in ran:
            row = rung(document, workload["name"], name)
            step = None if row is None else row.get("step_ms")
            cells.append(number(step))
        order = "question first" if workload["axes"].get("question_first") else "state first"
        body.append([workload["name"], f"{axis(workload, 'documents') or 0:g}", order, *cells])
    head = ["workload", "documents", "order", *(f"{name} ms" for name in ran)]
    caption = "Relevance of each document, then sufficiency, next link and stop: one step"
    return [Table(head, body, left=frozenset({0, 2}), caption=caption)] if body else []


def gates(document: Document) -> list[Table]:
    """Every comparison between rungs."""
    body = []
    for row in document["rungs"]:
        detail = row["gate_detail"]
        if detail is None:
            continue
        body.append(
            [
                _colour(detail),
                row["workload"],
                f"{row['name']} against {detail['against']}",
                f"{detail['agreement']:.1%}",
                "–" if detail["max_dp"] is None else f"{detail['max_dp']:.2g}",
                "–" if detail["bound"] is None else f"{detail['bound']:.2g}",
                detail["note"] or "–",
            ]
        )
    head = ["gate", "workload", "rungs", "same answer", "max |Δp|", "bound", "note"]
    return [Table(head, body, left=frozenset({0, 1, 2, 6}))] if body else []


def _colour(detail: Row) -> str:
    """How often generated answers agree with the readout's is told, and judges nothing."""
    if detail["ok"] and detail["max_dp"] is None and "not judged" in detail["note"]:
        return "told"
    return "green" if detail["ok"] else "red"


def number(value: float | None) -> str:
    """Three figures, thousands set apart; a dash for nothing."""
    if value is None:
        return "–"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _each(row: Row, key: str) -> float | None:
    return row[key] / row["decisions"] if row["decisions"] else None


def _ratio(row: Row, against: str) -> str:
    found = interval(row, against)
    if found is None:
        return "–"
    ratio, low, high = found
    return f"{ratio:.2f} [{low:.2f}, {high:.2f}]"


def _rate(row: Row, key: str, unit: float) -> str:
    if row[key] is None:
        return "–"
    share = row.get(f"{key}_share")
    return number(row[key] / unit) + ("" if share is None else f" ({share:.0%})")
