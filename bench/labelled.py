"""Rows of a result's quality: how good answers to labelled requests are, by confidence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from readoff.bench.bootstrap import Estimate
from readoff.bench.metrics import Quality, quality
from readoff.bench.outcomes import Source, outcomes
from readoff.bench.records import Ask, Given
from readoff.engine.gate import Gate

READOUT: tuple[Source, ...] = ("readout",)
JSON: tuple[Source, ...] = ("stated", "tokens")


def rows(
    workload: str,
    rung: str,
    asks: Sequence[Ask],
    given: Sequence[Mapping[str, Given]],
    seed: int,
    gate: Gate | None = None,
) -> list[dict[str, Any]]:
    """One row a source that `rung`'s answers have. A kind of confidence nobody gave has none.

    With a gate the readout's rows also say what share it accepts, and how good that is.
    """
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
        row = {"workload": workload, "rung": rung, "kind": source, **_row(measured)}
        if gate is not None and source == "readout":
            row |= accepted(asks, given, gate)
        made.append(row)
    return made


def accepted(
    asks: Sequence[Ask], given: Sequence[Mapping[str, Given]], gate: Gate
) -> dict[str, float | None]:
    """The share of decisions that `gate` accepts, and their accuracy (None where it is none)."""
    found = outcomes(asks, given, "readout")
    asked = [(ask.questions[name].type, name) for ask in asks for name in ask.targets]
    thresholds = np.array(
        [np.inf if t is None else t for t in (gate.threshold_for(*one) for one in asked)]
    )
    kept = found.weight * (found.confidence >= thresholds)
    share = float(kept.sum() / found.weight.sum())
    right = float((kept * found.correct).sum() / kept.sum()) if share else None
    return {"accepted": share, "accepted_accuracy": right}


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
