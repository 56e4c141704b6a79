"""From rows to a card's prior and temperatures; what is chosen, is chosen by cross-validation."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import numpy as np

from readoff.bench.bootstrap import Floats
from readoff.bench.calibrate.folds import FOLDS, splits
from readoff.bench.calibrate.prior import Priors, fit_priors, without
from readoff.bench.calibrate.rows import Rows, log_softmax
from readoff.bench.calibrate.temperature import (
    KAPPAS,
    LEAST,
    Temperatures,
    fit_temperatures,
    one_class,
)
from readoff.bench.quality.files import QualityError
from readoff.engine.card_fields import TYPES, Prior, Temperature

Method: TypeAlias = Literal["type", "options", "field", "shrunk"]
METHODS: tuple[Method, ...] = ("type", "options", "field", "shrunk")


@dataclass(frozen=True)
class Recipe:
    """What is fitted: temperatures by "type" (as published), by type and number of "options", by
    "field", or "shrunk" between all three; and a prior or none."""

    method: Method = "shrunk"
    prior: bool = False


@dataclass(frozen=True)
class Fit:
    """A fit, and how far cross-validation drew the finer temperatures to the coarser ones."""

    temperatures: Temperatures
    priors: Priors
    kappa: float

    @property
    def temperature(self) -> Temperature:
        """The card's entry."""
        return self.temperatures.entry()

    @property
    def prior(self) -> Prior:
        """The card's entry."""
        return self.priors.entry()

    def probabilities(self, rows: Rows) -> Floats:
        """Calibrated probabilities of `rows`, [N, L]."""
        return calibrated(rows, self.prior, self.temperature)


def calibrated(rows: Rows, prior: Prior, temperature: Temperature) -> Floats:
    """`softmax((z - prior) / T)`, [N, L], each row's prior and T looked up as an engine does."""
    z = without(rows, prior).z
    t = [
        temperature.find(kind, name, int(size))
        for kind, name, size in zip(rows.types, rows.fields, rows.sizes, strict=True)
    ]
    found: Floats = np.exp(log_softmax(z / np.array(t)[:, None]))
    return found


def log_losses(rows: Rows, p: Floats) -> Floats:
    """The log loss of each row, [N]."""
    found: Floats = -(rows.target * np.log(np.maximum(p, 1e-12))).sum(axis=1)
    return found


def fit(rows: Rows, recipe: Recipe, *, seed: int = 0, folds: int = FOLDS) -> Fit:
    """Fit `recipe` to all of `rows`; strengths are chosen by cross-validation within them.

    Raises QualityError for fewer than `LEAST` decisions, or where nothing could be fitted.
    """
    check_rows(rows)
    return _best(rows, recipe, seed, folds)


def _best(rows: Rows, recipe: Recipe, seed: int, folds: int) -> Fit:
    priors = fit_priors(rows, seed=seed, folds=folds) if recipe.prior else Priors()
    bare = without(rows, priors.entry())
    kappa = {"type": math.inf}.get(recipe.method, 0.0)
    if recipe.method == "shrunk":
        kappa = _kappa(bare, seed, folds)
    return Fit(_temperatures(bare, recipe.method, kappa), priors, kappa)


def check_rows(rows: Rows) -> None:
    """Raises QualityError where no fit is possible at all."""
    if len(rows) < LEAST:
        raise QualityError(
            f"There are {len(rows)} labelled decisions of a weight above zero, and a fit needs "
            f"{LEAST}. Label more."
        )
    if one_class(rows):
        raise QualityError(
            "The truth is the same option in every decision, so there is nothing to calibrate on. "
            "Add decisions with other answers."
        )


def out_of_fold(
    rows: Rows,
    recipe: Recipe,
    *,
    seed: int = 0,
    folds: int = FOLDS,
    tell: Callable[[int, int], None] = lambda done, total: None,
) -> Floats:
    """Probabilities [N, L] of every row by a fit that saw neither it nor its state.

    Strengths are chosen anew within each fold's training part. Raises QualityError as `fit` does.
    """
    check_rows(rows)
    found = np.zeros_like(rows.z)
    parts = list(splits(rows, folds, seed))
    for number, (train, test) in enumerate(parts):
        tell(number, len(parts))
        made = _best(rows.where(train), recipe, seed + 1, folds)
        found[test] = made.probabilities(rows.where(test))
    tell(len(parts), len(parts))
    return found


def _temperatures(bare: Rows, method: Method, kappa: float) -> Temperatures:
    return fit_temperatures(
        bare,
        options=method in ("options", "shrunk"),
        fields=method in ("field", "shrunk"),
        kappa=kappa,
    )


def _kappa(bare: Rows, seed: int, folds: int) -> float:
    """The shrinkage of the least log loss on rows held out; of equal ones the strongest."""
    finest = _temperatures(bare, "shrunk", 0.0)
    if not (finest.fields or set(finest.found) - set(TYPES)):
        return math.inf  # nothing to shrink
    losses = np.zeros(len(KAPPAS))
    weighed = replace(bare, weight=bare.weight / bare.weight.mean())
    for train, test in splits(weighed, folds, seed):
        held, seen = weighed.where(test), weighed.where(train)
        for at, kappa in enumerate(KAPPAS):
            p = calibrated(held, Prior(), _temperatures(seen, "shrunk", kappa).entry())
            losses[at] += float((held.weight * log_losses(held, p)).sum())
    return KAPPAS[max(np.flatnonzero(losses <= losses.min() + 1e-9).tolist())]
