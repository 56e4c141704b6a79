"""Priors in raw logits, fitted to labels: what a model says too readily, whatever the state.

The model is `softmax(a·z - c)`, a multinomial regression with one slope: convex in (a, c). The
temperature that comes with it, 1/a, lets the prior b = c/a come out in raw logits; the temperatures
of the card are fitted again afterwards, over whatever groups they are for. A ridge keeps c small
where the decisions are few.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import numpy as np

from readoff.bench.bootstrap import Floats
from readoff.bench.calibrate.folds import FOLDS, splits
from readoff.bench.calibrate.rows import Rows, log_softmax
from readoff.bench.calibrate.temperature import LEAST, WIDEST, one_class
from readoff.engine.card_fields import Prior

RIDGES = (0.1, 1.0, 3.0, 10.0, 30.0, math.inf)
"""Strengths to choose from by cross-validation, for each prior by itself; infinite means none."""

_STEPS = 50


@dataclass(frozen=True)
class FittedPrior:
    """A prior [L] of mean zero, and the half width of each number's 95 % interval."""

    values: tuple[float, ...]
    margin: tuple[float, ...]
    count: int
    ridge: float


@dataclass
class Priors:
    """What was fitted, by its key in a card: a field, or "choice:7"; and what wasn't, and why."""

    by_field: dict[str, FittedPrior] = field(default_factory=dict)
    by_options: dict[str, FittedPrior] = field(default_factory=dict)
    denied: dict[str, int] = field(default_factory=dict)
    """Fields that must not fall back to the prior of their size, and the number of options."""
    notes: list[str] = field(default_factory=list)

    def entry(self) -> Prior:
        """The card's entry."""
        return Prior(
            by_field={
                **{key: found.values for key, found in self.by_field.items()},
                **{key: (0.0,) * size for key, size in self.denied.items()},
            },
            by_options={key: found.values for key, found in self.by_options.items()},
        )


def fit_priors(
    rows: Rows, ridge: float | None = None, *, seed: int = 0, folds: int = FOLDS
) -> Priors:
    """One prior a field whose options are always the same, else one a type and size.

    A field that gets none of its own gets zeros, not the prior that other fields of its size share.
    `ridge` None chooses it by cross-validated log loss.
    """
    made = Priors()
    strength = ridge if ridge is not None else (seed, folds)
    rest = np.ones(len(rows), np.bool_)
    without_own: dict[str, int] = {}
    for name in dict.fromkeys(rows.fields):
        mask = rows.of_field(name)
        asked = {(rows.types[i], rows.options[i]) for i in np.flatnonzero(mask)}
        if len(asked) == 1:
            rest &= ~mask
            found = _fit(rows.where(mask), strength, f'"{name}"', made.notes)
            if found is not None:
                made.by_field[name] = found
            else:
                without_own[name] = int(np.flatnonzero(mask)[0])
    for key in sorted({_key(rows, int(i)) for i in np.flatnonzero(rest)}):
        mask = rest & np.array([_key(rows, i) == key for i in range(len(rows))])
        found = _fit(rows.where(mask), strength, key, made.notes)
        if found is not None:
            made.by_options[key] = found
    for name, i in without_own.items():
        if _key(rows, i) in made.by_options:
            made.denied[name] = int(rows.sizes[i])
            made.notes.append(f'"{name}": nor does it take the prior of {_key(rows, i)}.')
    return made


def without(rows: Rows, prior: Prior) -> Rows:
    """`rows` with each one's prior subtracted from its logits."""
    z = rows.z.copy()
    for line, name, kind, size in zip(z, rows.fields, rows.types, rows.sizes, strict=True):
        line[:size] -= prior.find(kind, name, int(size))
    return replace(rows, z=z)


def _key(rows: Rows, i: int) -> str:
    return f"{rows.types[i]}:{rows.sizes[i]}"


def _fit(
    rows: Rows, strength: float | tuple[int, int], what: str, notes: list[str]
) -> FittedPrior | None:
    """`strength`: the ridge, or (seed, folds) to choose it with."""
    if len(rows) < LEAST:
        notes.append(f"{what}: {len(rows)} decisions, a prior needs {LEAST}; it gets none.")
        return None
    if one_class(rows):
        notes.append(f"{what}: the truth is the same option everywhere; it gets no prior.")
        return None
    if len(np.unique(rows.state)) < 2:
        notes.append(f"{what}: all decisions are about one state; it gets no prior.")
        return None
    size = int(rows.sizes[0])
    z, target = rows.z[:, :size], rows.target[:, :size]
    z = z - z.mean(axis=1, keepdims=True)
    weight = rows.weight / rows.weight.mean()
    ridge = strength if isinstance(strength, float) else _chosen(rows, z, target, weight, *strength)
    if ridge == math.inf:
        notes.append(f"{what}: a prior is of no help on decisions held out; it gets none.")
        return None
    a, c = _solved(z, target, weight, ridge)
    spread = _spread(rows, z, target, weight, a, c, ridge)
    return FittedPrior(tuple((c / a).tolist()), tuple((1.96 * spread).tolist()), len(rows), ridge)


def _chosen(rows: Rows, z: Floats, target: Floats, weight: Floats, seed: int, folds: int) -> float:
    """The ridge of the least log loss on rows held out; of equal ones the strongest."""
    losses = np.zeros(len(RIDGES))
    for train, test in splits(rows, folds, seed):
        for at, ridge in enumerate(RIDGES):
            a, c = _solved(z[train], target[train], weight[train], min(ridge, 1e9))
            log_p = log_softmax(a * z[test] - c)
            losses[at] -= float((weight[test, None] * target[test] * log_p).sum())
    return RIDGES[max(np.flatnonzero(losses <= losses.min() + 1e-9).tolist())]


def _solved(z: Floats, target: Floats, weight: Floats, ridge: float) -> tuple[float, Floats]:
    """(a, c) of the least penalised loss, by Newton's method with halved steps; c has mean 0."""
    x = np.concatenate([[1.0], np.zeros(z.shape[1])])

    def loss(x: Floats) -> float:
        fitting = (weight[:, None] * target * log_softmax(x[0] * z - x[1:])).sum()
        return float(0.5 * ridge * (x[1:] ** 2).sum() - fitting)

    value = loss(x)
    for _ in range(_STEPS):
        p = np.exp(log_softmax(x[0] * z - x[1:]))
        off = weight[:, None] * (p - target)
        slope = np.concatenate([[(off * z).sum()], ridge * x[1:] - off.sum(axis=0)])
        step = np.linalg.solve(_hessian(z, p, weight, ridge) + 1e-9 * np.eye(len(x)), slope)
        size = 1.0
        while size > 1e-6:
            tried = x - size * step
            tried[0] = min(max(tried[0], math.exp(-WIDEST)), math.exp(WIDEST))
            found = loss(tried)
            if found < value:
                break
            size /= 2.0
        else:
            break
        x, gain, value = tried, value - found, found
        if gain < 1e-10 * max(1.0, abs(value)):
            break
    return float(x[0]), x[1:] - x[1:].mean()


def _hessian(z: Floats, p: Floats, weight: Floats, ridge: float) -> Floats:
    """The second derivatives of the penalised loss in (a, c), [1 + L, 1 + L]."""
    size = z.shape[1]
    mean = (p * z).sum(axis=1, keepdims=True)
    wp = weight[:, None] * p
    made = np.zeros((size + 1, size + 1))
    made[0, 0] = (wp * (z - mean) ** 2).sum()
    made[0, 1:] = made[1:, 0] = -(wp * (z - mean)).sum(axis=0)
    made[1:, 1:] = np.diag(wp.sum(axis=0)) - wp.T @ p + ridge * np.eye(size)
    return made


def _spread(
    rows: Rows, z: Floats, target: Floats, weight: Floats, a: float, c: Floats, ridge: float
) -> Floats:
    """Standard errors of c/a: sandwich by state, then the delta method. [L]."""
    size = len(c)
    p = np.exp(log_softmax(a * z - c))
    off = weight[:, None] * (p - target)
    slopes = np.concatenate([(off * z).sum(axis=1, keepdims=True), -off], axis=1)  # [N, 1 + L]
    place = np.unique(rows.state, return_inverse=True)[1]
    by_state = np.zeros((int(place.max()) + 1, size + 1))
    np.add.at(by_state, place, slopes)
    hessian = _hessian(z, p, weight, ridge)
    inverse = np.linalg.pinv(hessian)
    covariance = inverse @ (by_state.T @ by_state) @ inverse
    # c is centred, and so is its covariance: a constant added to it changes nothing.
    centre = np.eye(size + 1)
    centre[1:, 1:] -= 1.0 / size
    covariance = centre @ covariance @ centre.T
    jacobian = np.concatenate([-c[:, None] / a**2, np.eye(size) / a], axis=1)
    variances: Floats = np.einsum("ij,jk,ik->i", jacobian, covariance, jacobian)
    return np.sqrt(np.maximum(variances, 0.0))
