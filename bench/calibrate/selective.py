"""Risk against coverage: how often answers are wrong if only the surest ones are taken."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from readoff.bench.bootstrap import Floats


@dataclass(frozen=True)
class Curve:
    """Points of rising coverage, one a distinct confidence: all answers at least as sure as
    `threshold` are `coverage` of the mass, and `risk` of them is wrong. `area` is the mean risk
    over all coverages (AURC, Geifman et al. 2019), `best` what it would be if every right answer
    were surer than every wrong one."""

    threshold: Floats
    coverage: Floats
    risk: Floats
    area: float
    best: float


def risk_coverage(confidence: Floats, correct: Floats, weight: Floats) -> Curve:
    """The curve of answers with these confidences; all [N], weights not all zero.

    Equal confidences are taken together, so the order of the answers doesn't matter.
    """
    values, place = np.unique(-confidence, return_inverse=True)
    mass = np.asarray(np.bincount(place, weights=weight), np.float64)
    wrong = np.asarray(np.bincount(place, weights=weight * (1.0 - correct)), np.float64)
    coverage, errors = np.cumsum(mass), np.cumsum(wrong)
    keep = coverage > 0.0
    risk = errors[keep] / coverage[keep]
    return Curve(
        threshold=-values[keep],
        coverage=coverage[keep] / coverage[-1],
        risk=risk,
        area=_area(mass, wrong),
        best=_area(*_sorted(correct, weight)),
    )


def _sorted(correct: Floats, weight: Floats) -> tuple[Floats, Floats]:
    """Masses and wrong masses if all right answers came first."""
    right, wrong = float((weight * correct).sum()), float((weight * (1.0 - correct)).sum())
    return np.array([right, wrong]), np.array([0.0, wrong])


def _area(mass: Floats, wrong: Floats) -> float:
    """The integral of risk over coverage. Within a group of equal confidence answers come in any
    order, so errors grow linearly there: risk = (E + r·x)/(C + x), which has a closed integral."""
    before, errors, total = 0.0, 0.0, 0.0
    for m, e in zip(mass.tolist(), wrong.tolist(), strict=True):
        if m <= 0.0:
            continue
        rate = e / m
        total += rate * m
        if before > 0.0:
            total += (errors - rate * before) * float(np.log1p(m / before))
        before, errors = before + m, errors + e
    return total / before if before else float("nan")
