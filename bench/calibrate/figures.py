"""The figures of a report: log loss, Brier score and its parts, calibration errors, risk."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from readoff.bench.bootstrap import Floats
from readoff.bench.calibrate.rows import Rows
from readoff.bench.calibrate.selective import Curve, risk_coverage
from readoff.bench.metrics import Quality, measure
from readoff.bench.outcomes import FLOOR, Outcomes
from readoff.bench.reliability import BINS, calibration_error, equal_mass

SIMULATIONS = 200


@dataclass(frozen=True)
class Brier:
    """The parts of the Brier score of "the answer is right" (Murphy 1973), over bins of equal mass:
    `reliability - resolution + uncertainty + within`, the last being what binning hides (Stephenson
    et al. 2008)."""

    reliability: float
    resolution: float
    uncertainty: float
    within: float


@dataclass(frozen=True)
class Figures:
    """What is told of one set of rows under one set of probabilities.

    `quality` holds accuracy, log loss, Brier and ECE (adaptive: bins of equal mass) with their
    intervals. `width_ece` has bins of equal width; `classwise_ece` is the mean over the classes of
    the error of their own probability; each with the mean of what calibrated probabilities of the
    same sizes show: None where labels are soft, since expected scores vary less than outcomes.
    """

    quality: Quality
    brier: Brier
    width_ece: tuple[float, float | None]
    classwise_ece: tuple[float, float | None] | None
    curve: Curve


def figures(rows: Rows, p: Floats, *, seed: int = 0, resamples: int = 1000) -> Figures:
    """The figures of `rows` with probabilities `p` [N, L]."""
    columns = outcomes_of(rows, p)
    c, y, w = columns.confidence, columns.correct, columns.weight
    generator = np.random.default_rng(seed)
    drawn = (generator.random((SIMULATIONS, len(c))) < c).astype(np.float64)
    chance: float | None = float(np.mean([width_error(c, row, w) for row in drawn]))
    quality = measure(columns, "readout", seed=seed, resamples=resamples)
    classwise = _classwise(rows, p, generator)
    if is_soft(rows).any():
        chance = None
        classwise = classwise and (classwise[0], None)
    return Figures(
        quality=quality,
        brier=brier_parts(c, y, w),
        width_ece=(width_error(c, y, w), chance),
        classwise_ece=classwise,
        curve=risk_coverage(c, y, w),
    )


def is_soft(rows: Rows) -> NDArray[np.bool_]:
    """Which rows' truth is more than one option, [N]."""
    found: NDArray[np.bool_] = np.any((rows.target > 0.0) & (rows.target < 1.0), axis=1)
    return found


def outcomes_of(rows: Rows, p: Floats) -> Outcomes:
    """The columns that bench's metrics are computed from."""
    best = p.argmax(axis=1)
    at = np.arange(len(rows))
    floored: NDArray[np.bool_] = np.any((p < FLOOR) & (rows.target > 0.0), axis=1)
    return Outcomes(
        confidence=p[at, best],
        correct=rows.target[at, best],
        weight=rows.weight,
        group=np.unique(rows.state, return_inverse=True)[1].astype(np.int64),
        answered=np.ones(len(rows), np.bool_),
        log_loss=-(rows.target * np.log(np.maximum(p, FLOOR))).sum(axis=1),
        brier=(p * p).sum(axis=1) - 2.0 * (rows.target * p).sum(axis=1) + rows.target.sum(axis=1),
        floored=floored,
        soft=is_soft(rows),
    )


def brier_parts(confidence: Floats, correct: Floats, weight: Floats, bins: int = BINS) -> Brier:
    """The decomposition; its sum is the Brier score of the outcomes to the last digit.

    A soft outcome counts as its expected score: the outcome's own spread is in `within`.
    """
    share = weight / weight.sum()
    place = equal_mass(confidence, weight, bins)
    mass = np.bincount(place, weights=share)
    used = mass > 0.0
    mean_c = np.bincount(place, weights=share * confidence)[used] / mass[used]
    mean_y = np.bincount(place, weights=share * correct)[used] / mass[used]
    base = float((share * correct).sum())
    score = correct * (1.0 - confidence) ** 2 + (1.0 - correct) * confidence**2
    reliability = float((mass[used] * (mean_c - mean_y) ** 2).sum())
    resolution = float((mass[used] * (mean_y - base) ** 2).sum())
    uncertainty = base * (1.0 - base)
    whole = float((share * score).sum())
    return Brier(
        reliability, resolution, uncertainty, whole - reliability + resolution - uncertainty
    )


def width_error(confidence: Floats, correct: Floats, weight: Floats, bins: int = BINS) -> float:
    """The calibration error over bins of equal width (Naeini et al. 2015, Guo et al. 2017)."""
    place = np.minimum((confidence * bins).astype(np.int64), bins - 1)
    gaps = np.bincount(place, weights=weight * (correct - confidence))
    return float(np.abs(gaps).sum() / weight.sum())


def _classwise(
    rows: Rows, p: Floats, generator: np.random.Generator
) -> tuple[float, float | None] | None:
    """(error, what calibrated probabilities show), the mean over classes of at least 20 rows."""
    errors: list[float] = []
    chances: list[float] = []
    for members in _classes(rows).values():
        at = np.array([i for i, _ in members])
        if len(at) < 20:
            continue
        q = p[at, np.array([k for _, k in members])]
        truth = rows.target[at, np.array([k for _, k in members])]
        mass = rows.weight[at]
        errors.append(calibration_error(q, truth, mass))
        draws = (generator.random((20, len(q))) < q).astype(np.float64)
        chances.append(float(np.mean([calibration_error(q, row, mass) for row in draws])))
    return (float(np.mean(errors)), float(np.mean(chances))) if errors else None


def _classes(rows: Rows) -> Mapping[tuple[str, str], list[tuple[int, int]]]:
    """(row, place) by class: a field's option name where its options stay, else type and place."""
    asked: dict[str, set[tuple[str, ...]]] = {}
    for name, options in zip(rows.fields, rows.options, strict=True):
        asked.setdefault(name, set()).add(options)
    found: dict[tuple[str, str], list[tuple[int, int]]] = {}
    for i, (name, options) in enumerate(zip(rows.fields, rows.options, strict=True)):
        fixed = len(asked[name]) == 1
        for k, option in enumerate(options):
            key = (name, option) if fixed else (f"{rows.types[i]}:{len(options)}", str(k))
            found.setdefault(key, []).append((i, k))
    return found
