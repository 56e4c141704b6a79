"""The JSON document of a calibration: what result.json holds and reports are made from."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np

from readoff.bench.bootstrap import Estimate
from readoff.bench.calibrate.figures import Figures
from readoff.bench.calibrate.run import Calibration, Part
from readoff.bench.report.result import clean

SCHEMA = 1
_POINTS = 100  # of a curve


def document(made: Calibration, about: Mapping[str, Any]) -> dict[str, Any]:
    """JSON values only. `about`: model, data, debias, commit, …, as they are known."""
    temperatures, priors = made.fit.temperatures, made.fit.priors
    whole = made.parts[0].rows
    found = {
        "schema": SCHEMA,
        **about,
        "decisions": len(whole),
        "states": len(np.unique(whole.state)),
        "method": made.recipe.method,
        "kappa": _strength(made.fit.kappa),
        "temperatures": _fitted(temperatures.found, temperatures.fields),
        "priors": _fitted(priors.by_options, priors.by_field),
        "recipes": [{"name": n, "nll": loss, "accuracy": a} for n, loss, a in made.recipes],
        "parts": [_part(part) for part in made.parts],
        "gate": None if made.gate is None else _gate(made),
        "notes": list(made.notes),
    }
    cleaned: dict[str, Any] = clean(found)
    return cleaned


def _fitted(by_kind: Mapping[str, Any], by_field: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What was fitted; `field` tells a field called "choice" from the type."""
    return [
        {"key": key, "field": table is by_field, **asdict(one)}
        for table in (by_kind, by_field)
        for key, one in table.items()
    ]


def label(one: Mapping[str, Any]) -> str:
    """How a row of `temperatures` or `priors` is called: a field between quotes."""
    return f'"{one["key"]}"' if one["field"] else str(one["key"])


def _part(part: Part) -> dict[str, Any]:
    return {
        "name": part.name,
        "decisions": len(part.rows),
        "before": _figures(part.before),
        "after": _figures(part.after),
        "proposition_1": None if part.loss is None else asdict(part.loss),
    }


def _figures(found: Figures) -> dict[str, Any]:
    q = found.quality
    row: dict[str, Any] = {}
    for name, estimate in (
        ("accuracy", q.accuracy),
        ("nll", q.distribution_nll),
        ("brier", q.brier),
        ("ece", q.ece),
        ("calibrated_ece", q.calibrated_ece),
        ("distribution_brier", q.distribution_brier),
    ):
        row[name] = None if estimate is None else estimate.value
        row[f"{name}_interval"] = _interval(estimate)
    row["brier_parts"] = asdict(found.brier)
    row["width_ece"], row["calibrated_width_ece"] = found.width_ece
    classwise = found.classwise_ece or (None, None)
    row["classwise_ece"], row["calibrated_classwise_ece"] = classwise
    row["aurc"], row["best_aurc"] = found.curve.area, found.curve.best
    row["floored"] = q.floored
    row["bins"] = [asdict(one) for one in q.bins]
    count = len(found.curve.coverage)
    points = np.unique(np.linspace(0, count - 1, min(count, _POINTS)).astype(int))
    row["curve"] = [
        [float(column[i]) for column in (found.curve.coverage, found.curve.risk)] for i in points
    ]
    return row


def _gate(made: Calibration) -> dict[str, Any]:
    assert made.gate is not None
    return {
        "entry": made.gate.gate.to_json(),
        "thresholds": [{"key": k, **asdict(one)} for k, one in made.gate.thresholds.items()],
        "notes": list(made.gate.notes),
    }


def _interval(estimate: Estimate | None) -> list[float] | None:
    return None if estimate is None else [estimate.low, estimate.high]


def _strength(value: float) -> float | str:
    return "inf" if value == math.inf else value
