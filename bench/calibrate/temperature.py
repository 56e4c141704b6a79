"""Temperatures: by type as published, by number of options, by field, and shrunk between these.

A temperature minimises the weighted log loss (Guo et al. 2017). The finer ones may be pulled
towards the coarser one above them: a field's minimises `NLL(T) + κ/2·(ln T - ln T_above)²`, so κ
acts like that many decisions that agree with the coarser one. κ = 0 is a fit of its own, κ = inf
the published method.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar  # type: ignore[import-untyped]

from readoff.bench.bootstrap import Floats
from readoff.bench.calibrate.rows import Rows, log_softmax
from readoff.engine.card_fields import TYPES, Temperature

LEAST = 20
"""Decisions that a temperature of its own needs."""

WIDEST = math.log(50.0)
"""Temperatures are searched from 1/50 to 50."""

_UNTOLD = 2.0  # the standard error of ln T, by curvature, beyond which a fit is no fit

KAPPAS = (0.0, 3.0, 10.0, 30.0, 100.0, 300.0, math.inf)


@dataclass(frozen=True)
class Estimated:
    """A temperature with its 95 % interval (from the curvature, decisions of one state together),
    and the number of decisions it rests on."""

    value: float
    low: float
    high: float
    count: int


@dataclass
class Temperatures:
    """What was fitted: `found` of types and sizes by its key in a card ("choice", "choice:7"), and
    `fields`, a table of its own since a field may be called "choice" too; and what wasn't."""

    found: dict[str, Estimated] = field(default_factory=dict)
    fields: dict[str, Estimated] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def entry(self) -> Temperature:
        """The card's entry."""
        values = {key: one.value for key, one in self.found.items()}
        of_types = {kind: values.pop(kind) for kind in TYPES if kind in values}
        of_fields = {name: one.value for name, one in self.fields.items()}
        return Temperature(**of_types, by_options=values, by_field=of_fields)


def fit_temperatures(
    rows: Rows, *, options: bool = True, fields: bool = True, kappa: float = 0.0
) -> Temperatures:
    """Temperatures for `rows`, whose `z` has lost its prior already.

    `options` and `fields` allow the finer ones, shrunk by `kappa`. What has fewer than `LEAST`
    decisions or one class only gets none of its own, and `notes` say so.
    """
    made = Temperatures()
    for kind in TYPES:
        mask = rows.of_type(kind)
        if not mask.any():
            continue
        if not _fitting(rows, mask, f"{kind} questions", "temperature 1", made.notes):
            continue
        made.found[kind] = _fit(rows.where(mask), kind, made.notes)
        if kappa == math.inf:
            continue
        for size in np.unique(rows.sizes[mask]) if options else ():
            key, of_size = f"{kind}:{size}", mask & (rows.sizes == size)
            if _apart(rows, of_size, mask, key, made.notes):
                above = made.found[kind].value
                made.found[key] = _fit(rows.where(of_size), key, made.notes, kappa, above)
    for name in dict.fromkeys(rows.fields) if fields and kappa != math.inf else ():
        _fit_field(rows, name, made, kappa)
    return made


def _fit_field(rows: Rows, name: str, made: Temperatures, kappa: float) -> None:
    mask = rows.of_field(name)
    kinds = {rows.types[i] for i in np.flatnonzero(mask)}
    if len(kinds) > 1:
        made.notes.append(f'"{name}" is asked as several types: no temperature of its own.')
        return
    (kind,) = kinds
    if kind not in made.found:
        return
    sizes = set(rows.sizes[mask].tolist())
    key = f"{kind}:{next(iter(sizes))}"
    above = rows.of_type(kind)
    if len(sizes) == 1 and key in made.found:
        above, centre = above & (rows.sizes == next(iter(sizes))), made.found[key].value
    else:
        centre = made.found[kind].value
    if _apart(rows, mask, above, f'"{name}"', made.notes):
        made.fields[name] = _fit(rows.where(mask), f'"{name}"', made.notes, kappa, centre)


def one_class(rows: Rows) -> bool:
    """Whether the truth is the same option everywhere: then it tells nothing of the others."""
    first: str | None = None
    for i, k in zip(*(axis.tolist() for axis in np.nonzero(rows.target)), strict=True):
        if first is None:
            first = rows.options[i][k]
        elif rows.options[i][k] != first:
            return False
    return True


def _fitting(
    rows: Rows, mask: NDArray[np.bool_], what: str, instead: str, notes: list[str]
) -> bool:
    count = int(mask.sum())
    if count < LEAST:
        notes.append(f"{what}: {count} decisions, a fit needs {LEAST}; {instead}.")
        return False
    if one_class(rows.where(mask)):
        notes.append(f"{what}: the truth is the same option everywhere; {instead}.")
        return False
    return True


def _apart(
    rows: Rows, mask: NDArray[np.bool_], above: NDArray[np.bool_], what: str, notes: list[str]
) -> bool:
    """Whether a finer temperature is worth fitting: other rows than the coarser one's, enough."""
    if mask.sum() == above.sum():
        return False
    return _fitting(rows, mask, what, "the coarser temperature", notes)


def _fit(
    rows: Rows, what: str, notes: list[str], kappa: float = 0.0, centre: float = 1.0
) -> Estimated:
    weight = rows.weight / rows.weight.mean()
    loss = _loss(rows.z, rows.target, weight)
    middle = math.log(centre)

    def objective(u: float) -> float:
        return loss(u) + 0.5 * kappa * (u - middle) ** 2

    best = minimize_scalar(
        objective, bounds=(-WIDEST, WIDEST), method="bounded", options={"xatol": 1e-7}
    )
    u = float(best.x)
    spread, curvature = _spread(rows, weight, u, kappa)
    if u < middle and (u < 1e-3 - WIDEST or curvature < _UNTOLD**-2):
        notes.append(
            f"{what}: every answer is right and the surer the better, so the decisions don't tell "
            f"the temperature; it stays {centre:.3g}."
        )
        u, spread = middle, math.inf
    elif u > WIDEST - 1e-3:
        notes.append(
            f"{what}: the temperature {math.exp(u):.3g} lies at the end of what is searched; the "
            "logits say next to nothing about the truth."
        )
    # The exponential of infinity is no error here, only an interval without an end.
    spread = min(spread, 100.0)
    return Estimated(
        math.exp(u), math.exp(u - 1.96 * spread), math.exp(u + 1.96 * spread), len(rows)
    )


def _loss(z: Floats, target: Floats, weight: Floats) -> Callable[[float], float]:
    def loss(u: float) -> float:
        return float((weight * -(target * log_softmax(z * math.exp(-u))).sum(axis=1)).sum())

    return loss


def _spread(rows: Rows, weight: Floats, u: float, kappa: float) -> tuple[float, float]:
    """The standard error of ln T: sandwich, summed by state (White 1980, Liang and Zeger 1986);
    and the curvature of the loss."""
    scores = rows.z * math.exp(-u)
    p = np.exp(log_softmax(scores))
    inner = np.where(p > 0.0, p * scores, 0.0)
    mean = inner.sum(axis=1)
    told = np.where(rows.target > 0.0, rows.target * scores, 0.0).sum(axis=1)
    slopes = weight * (told - mean)
    variance = np.where(p > 0.0, p * (scores - mean[:, None]) ** 2, 0.0).sum(axis=1)
    curvature = float((weight * variance).sum()) + kappa
    by_state = np.bincount(np.unique(rows.state, return_inverse=True)[1], weights=slopes)
    if curvature <= 0.0:
        return math.inf, 0.0
    return math.sqrt(float((by_state**2).sum())) / curvature, curvature
