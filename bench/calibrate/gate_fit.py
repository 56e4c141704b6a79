"""Thresholds of a gate from labelled decisions: by cost, by a guaranteed risk, by coverage.

The guarantee is that of "learn then test" (Angelopoulos et al. 2021): each threshold of a list is a
hypothesis "more than α of what it accepts is wrong", tested with an exact binomial p-value, which
holds for any number of decisions. Over the draw of the calibration decisions, the threshold that
comes out has an error above α with a probability of at most β.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import binom  # type: ignore[import-untyped]

from readoff.bench.bootstrap import Floats
from readoff.bench.calibrate.selective import risk_coverage

STARTS = (0.95, 0.9, 0.8, 0.65, 0.5)
"""Where the tests begin when no other sample says where: each start has a share of β."""

STEP = 0.01
_GUIDED = 60  # thresholds of a guided list, at most


@dataclass(frozen=True)
class Costs:
    """What an accepted answer costs if it is wrong or right, and what an escalation costs."""

    wrong: float
    escalated: float
    right: float = 0.0

    def __post_init__(self) -> None:
        if not all(map(math.isfinite, (self.wrong, self.escalated, self.right))):
            raise ValueError("costs must be finite numbers")
        if not self.wrong > self.right:
            raise ValueError("being wrong must cost more than being right")


@dataclass(frozen=True)
class Chosen:
    """A threshold (None accepts nothing), and the shares it accepts and gets wrong of those, on the
    decisions it was chosen with. `why` is a sentence for people; `guaranteed` whether a promise
    stands behind it."""

    threshold: float | None
    coverage: float
    risk: float | None
    why: str
    guaranteed: bool = False


def by_cost(confidence: Floats, correct: Floats, weight: Floats, costs: Costs) -> Chosen:
    """The threshold of the least mean cost on these decisions; all columns [N].

    Of equally cheap ones the lowest. For probabilities that are calibrated it tends to
    (wrong - escalated)/(wrong - right).
    """
    curve = risk_coverage(confidence, correct, weight)
    accepted = curve.coverage * (curve.risk * costs.wrong + (1 - curve.risk) * costs.right)
    means = np.concatenate([[costs.escalated], accepted + (1 - curve.coverage) * costs.escalated])
    best = int(np.flatnonzero(means <= means.min() + 1e-12)[-1])
    ideal = (costs.wrong - costs.escalated) / (costs.wrong - costs.right)
    why = f"mean cost {means[best]:.4g}; calibrated probabilities would be cut at {ideal:.3g}"
    if best == 0:
        return Chosen(None, 0.0, None, f"escalating everything is cheapest: {why}")
    return _at(curve.threshold[best - 1], confidence, correct, weight, why)


def by_coverage(confidence: Floats, correct: Floats, weight: Floats, target: float) -> Chosen:
    """The highest threshold that accepts at least `target` of the decisions; a share above 0."""
    if not 0.0 < target <= 1.0:
        raise ValueError(f"a coverage is a share above 0, not {target}")
    curve = risk_coverage(confidence, correct, weight)
    index = min(int(np.searchsorted(curve.coverage, target - 1e-12)), len(curve.coverage) - 1)
    return _at(
        curve.threshold[index], confidence, correct, weight, f"accepts at least {target:.0%}"
    )


def by_risk(
    confidence: Floats,
    correct: Floats,
    *,
    alpha: float,
    beta: float,
    guide: tuple[Floats, Floats] | None = None,
) -> Chosen:
    """The lowest threshold with P(error among accepted > `alpha`) ≤ `beta`, or None.

    The decisions must be independent of one another and of the scores' fit, and count alike:
    weights have no place in a count. `correct` may be soft (the bound is then that of Hoeffding and
    Bentkus, which holds for any loss from 0 to 1). `guide`, (confidence, correct) of other
    decisions, says which thresholds to try and in what order: with it the whole of `beta` serves
    one list; without it, it is shared among `STARTS`.
    """
    for name, value in (("alpha", alpha), ("beta", beta)):
        if not 0.0 < value < 1.0:
            raise ValueError(f"{name} must lie between 0 and 1, not {value}")
    needed = least_items(alpha, beta)
    promise = f"P(error among accepted > {alpha:g}) ≤ {beta:g}"
    if len(confidence) < needed:
        why = (
            f"nothing can be guaranteed with {len(confidence)} decisions: {promise} takes at least "
            f"{needed}, none of them wrong"
        )
        return Chosen(None, 0.0, None, why)
    lists = [_guided(*guide, alpha, beta, len(confidence))] if guide else _unguided()
    found: list[float] = []
    for thresholds in lists:
        passed = _p_values(confidence, 1.0 - correct, thresholds, alpha) <= beta / len(lists)
        ends = len(passed) if passed.all() else int(passed.argmin())
        found += thresholds[:ends]
    if not found:
        return Chosen(None, 0.0, None, f"no threshold reached {promise}: too few decisions, or bad")
    weight = np.ones(len(confidence))
    return _at(min(found), confidence, correct, weight, promise, guaranteed=True)


def least_items(alpha: float, beta: float) -> int:
    """How many accepted decisions, all right, show an error of at most α with confidence 1 - β."""
    return math.ceil(math.log(beta) / math.log1p(-alpha) - 1e-9)


def p_value(losses: Floats, alpha: float) -> float:
    """P-value of "the mean loss is above `alpha`" for independent losses from 0 to 1.

    Exact binomial (Clopper and Pearson 1934) for losses of 0 and 1, else the smaller of the
    Hoeffding and the Bentkus bound (Bates et al. 2021).
    """
    n, total = len(losses), float(losses.sum())
    if n == 0:
        return 1.0
    if ((losses == 0.0) | (losses == 1.0)).all():
        return float(binom.cdf(round(total), n, alpha))
    bentkus = math.e * float(binom.cdf(math.ceil(total - 1e-9), n, alpha))
    return min(1.0, bentkus, _hoeffding(min(total / n, alpha), alpha, n))


def _p_values(
    confidence: Floats, losses: Floats, thresholds: Sequence[float], alpha: float
) -> Floats:
    """`p_value` of what each threshold accepts, [thresholds]."""
    if not ((losses == 0.0) | (losses == 1.0)).all():
        return np.array([p_value(losses[confidence >= cut], alpha) for cut in thresholds])
    order = np.argsort(confidence)
    kept = np.searchsorted(confidence[order], np.array(thresholds), side="left")
    wrong = np.append(np.cumsum(losses[order][::-1])[::-1], 0.0)[kept]
    n = len(confidence) - kept
    return np.where(n > 0, binom.cdf(wrong, n, alpha), 1.0)


def _hoeffding(mean: float, alpha: float, n: int) -> float:
    inner = 0.0 if mean <= 0.0 else mean * math.log(mean / alpha)
    inner += (1.0 - mean) * math.log((1.0 - mean) / (1.0 - alpha)) if mean < 1.0 else 0.0
    return math.exp(-n * max(0.0, inner))


def _unguided() -> list[list[float]]:
    """One falling list of thresholds a start, each ending where the next begins."""
    ends = [*STARTS[1:], 0.0]
    return [
        [round(x, 6) for x in np.arange(start, end + STEP / 2, -STEP)]
        for start, end in zip(STARTS, ends, strict=True)
    ]


def _guided(
    confidence: Floats, correct: Floats, alpha: float, beta: float, count: int
) -> list[float]:
    """Falling thresholds, beginning where the guide expects the test of `count` decisions to be
    surest. Whatever the guide is like, the promise holds; a poor one only accepts less."""
    curve = risk_coverage(confidence, correct, np.ones(len(confidence)))
    n = np.maximum(1, np.round(curve.coverage * count))
    # One error is added: the surest few of a small guide are often all right by luck.
    smoothed = (curve.risk * curve.coverage * len(confidence) + 1.0) / (
        curve.coverage * len(confidence) + 1.0
    )
    expected = binom.cdf(np.floor(smoothed * n), n, alpha)
    first = int(expected.argmin())
    rest = np.unique(np.linspace(first, len(n) - 1, _GUIDED).astype(int))
    return [float(curve.threshold[i]) for i in rest]


def _at(
    threshold: float,
    confidence: Floats,
    correct: Floats,
    weight: Floats,
    why: str,
    *,
    guaranteed: bool = False,
) -> Chosen:
    kept = confidence >= threshold
    mass = float(weight[kept].sum())
    risk = float((weight[kept] * (1.0 - correct[kept])).sum()) / mass if mass > 0.0 else None
    return Chosen(float(threshold), mass / float(weight.sum()), risk, why, guaranteed)
