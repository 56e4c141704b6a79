"""Rows of a result's quality: how good answers to labelled requests are, by confidence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from readoff.bench.bootstrap import Estimate
from readoff.bench.metrics import Quality, quality
from readoff.bench.outcomes import Source
from readoff.bench.records import Ask, Given

READOUT: tuple[Source, ...] = ("readout",)
JSON: tuple[Source, ...] = ("stated", "tokens")


def rows(
    workload: str, rung: str, asks: Sequence[Ask], given: Sequence[Mapping[str, Given]], seed: int
) -> list[dict[str, Any]]:
    """One row a source that `rung`'s answers have. A kind of confidence nobody gave has none."""
    found = [answer for answers in given for answer in answers.values()]
    has = {
        "readout": any(answer.probabilities is not None for answer in found),
        "stated": any(answer.stated is not None for answer in found),
        "tokens": any(answer.token_confidence is not None for answer in found),
    }
    sources = [source for source in (*READOUT, *JSON) if has[source]] or ["stated"]
    made = []
    for source in sources:
        measured = quality(asks, given, source, seed=seed)
        made.append({"workload": workload, "rung": rung, "kind": source, **_row(measured)})
    return made


def _row(found: Quality) -> dict[str, Any]:
    row: dict[str, Any] = {"n": found.questions, "answered": found.answered}
    estimates = {
        "accuracy": found.accuracy,
        "nll": found.nll,
        "brier": found.brier,
        "ece": found.ece,
        "calibrated_ece": found.calibrated_ece,
        "distribution_nll": found.distribution_nll,
        "distribution_brier": found.distribution_brier,
    }
    for name, estimate in estimates.items():
        row[name] = None if estimate is None else estimate.value
        row[f"{name}_interval"] = _interval(estimate)
    row["floored"] = found.floored
    row["bins"] = [asdict(one) for one in found.bins]
    return row


def _interval(estimate: Estimate | None) -> list[float] | None:
    return None if estimate is None else [estimate.low, estimate.high]
