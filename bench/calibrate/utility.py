"""Proposition 1: what acting on a score of calibration error ECE can cost, for binary decisions.

With utilities u(action, truth) from 0 to U, the best action for a score s differs in value from the
best one for the true probability c by at most |s - c| for each of the two actions, so acting on s
loses at most `2·U·E|s - c|`, which is `2·U·ECE`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from readoff.bench.bootstrap import Floats
from readoff.bench.reliability import BINS, equal_mass

Utility: TypeAlias = tuple[tuple[float, float], tuple[float, float]]
"""u[action][truth], both first "not", then "yes"; from 0 to U."""

RIGHT_OR_WRONG: Utility = ((1.0, 0.0), (0.0, 1.0))
"""1 for the right decision, 0 for the wrong one."""


@dataclass(frozen=True)
class Loss:
    """The bound and what was really lost, in units of utility a decision. `ece` and `u_max` are
    what the bound is made of."""

    bound: float
    realised: float
    ece: float
    u_max: float


def utility_bound(u_max: float, ece: float) -> float:
    """`2·U_max·ECE`. Raises ValueError for a negative or not finite number."""
    if not (np.isfinite(u_max) and np.isfinite(ece) and u_max >= 0.0 and ece >= 0.0):
        raise ValueError(f"U_max and ECE must be finite and not negative, not {u_max} and {ece}")
    return 2.0 * u_max * ece


def realised_loss(
    score: Floats,
    truth: Floats,
    weight: Floats,
    utility: Utility = RIGHT_OR_WRONG,
    bins: int = BINS,
) -> Loss:
    """What acting on `score` [N], the probability of "yes", lost against acting on its own bin's
    share of `truth` [N].

    A bin is the finest thing whose true probability a sample tells, so scores act as their bin's
    mean, in the bound as in the loss; the bound then holds for every sample. Raises ValueError for
    utilities below 0 and weights that are all zero.
    """
    u = np.array(utility, np.float64)
    if u.shape != (2, 2) or not np.isfinite(u).all() or (u < 0.0).any():
        raise ValueError("utilities are four finite numbers, none below 0")
    if not weight.sum() > 0.0:
        raise ValueError("the weights are all zero")
    place = equal_mass(score, weight, bins)
    mass = np.bincount(place, weights=weight)
    used = mass > 0.0
    share = mass[used] / mass.sum()
    s = np.bincount(place, weights=weight * score)[used] / mass[used]
    c = np.bincount(place, weights=weight * truth)[used] / mass[used]

    def values(p: Floats) -> Floats:
        """The expected utility of both actions, [2, bins]."""
        found: Floats = u[:, :1] * (1.0 - p) + u[:, 1:] * p
        return found

    acted = values(s).argmax(axis=0)
    real = values(c)
    lost = real.max(axis=0) - np.take_along_axis(real, acted[None], axis=0)[0]
    ece = float((share * np.abs(s - c)).sum())
    u_max = float(u.max())
    return Loss(utility_bound(u_max, ece), float((share * lost).sum()), ece, u_max)
