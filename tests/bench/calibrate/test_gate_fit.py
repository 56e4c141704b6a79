"""Thresholds: the guarantee holds in simulation, costs and coverages are what they say."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
import pytest
from scipy.stats import binom, binomtest  # type: ignore[import-untyped]

from readoff.bench.bootstrap import Floats
from readoff.bench.calibrate.gate_fit import (
    Costs,
    by_cost,
    by_coverage,
    by_risk,
    least_items,
    p_value,
)

DRAWS = 1000
Right = Callable[[Floats], Floats]


def calibrated(c: Floats) -> Floats:
    return c


def overconfident(c: Floats) -> Floats:
    return c - 0.08


def upside_down(c: Floats) -> Floats:
    """The surer, the worse beyond 0.8: risk doesn't fall with the threshold."""
    return np.where(c > 0.8, 0.85, 0.97)


def hopeless(c: Floats) -> Floats:
    """Just as bad as must not be accepted, everywhere: every acceptance is a violation."""
    return np.full_like(c, 0.8999)


def sample(generator: np.random.Generator, count: int, right: Right) -> tuple[Floats, Floats]:
    c = generator.beta(6.0, 1.0, count) * 0.5 + 0.5
    return c, (generator.random(count) < right(c)).astype(np.float64)


@cache
def risks(right: Right) -> Callable[[float], float]:
    """The true risk of a threshold, from a very large sample."""
    c = np.sort(np.random.default_rng(99).beta(6.0, 1.0, 400_000) * 0.5 + 0.5)
    wrong = np.cumsum((1.0 - right(c))[::-1])[::-1]
    counts = np.arange(len(c), 0, -1)

    def risk(threshold: float) -> float:
        at = int(np.searchsorted(c, threshold))
        return float(wrong[at] / counts[at]) if at < len(c) else 0.0

    return risk


@pytest.mark.parametrize("guided", [False, True])
@pytest.mark.parametrize("count", [50, 300])
@pytest.mark.parametrize("right", [calibrated, overconfident, upside_down, hopeless])
def test_the_promise_is_broken_no_more_often_than_it_says(
    right: Right, count: int, guided: bool
) -> None:
    alpha, beta = 0.1, 0.1
    risk, generator = risks(right), np.random.default_rng(count)
    broken = accepted = 0
    for _ in range(DRAWS):
        guide = sample(generator, count, right) if guided else None
        found = by_risk(*sample(generator, count, right), alpha=alpha, beta=beta, guide=guide)
        if found.threshold is not None:
            accepted += 1
            broken += risk(found.threshold) > alpha
            assert found.guaranteed
    assert broken <= binom.ppf(0.975, DRAWS, beta), f"{broken} of {DRAWS}"
    if right is calibrated and guided:
        few = {50: 0.2, 300: 0.8}[count]
        assert accepted > few * DRAWS, "a guarantee that accepts nothing is worth nothing"
    if right is hopeless:
        assert accepted == broken, "the simulation can break the promise"
        assert broken > 0


def test_with_too_few_items_nothing_can_be_guaranteed() -> None:
    assert least_items(0.1, 0.1) == 22
    assert least_items(0.05, 0.05) == 59
    for alpha, beta in ((0.1, 0.1), (0.05, 0.05), (0.5, 0.5), (0.01, 0.2)):
        n = least_items(alpha, beta)
        assert (1 - alpha) ** n <= beta < (1 - alpha) ** (n - 1)
    sure = np.full(21, 0.99), np.ones(21)
    found = by_risk(*sure, alpha=0.1, beta=0.1, guide=sure)
    assert (found.threshold, found.guaranteed, found.coverage) == (None, False, 0.0)
    assert "nothing can be guaranteed with 21 decisions" in found.why
    assert "at least 22" in found.why
    sure = np.full(22, 0.99), np.ones(22)
    assert by_risk(*sure, alpha=0.1, beta=0.1, guide=sure).threshold == 0.99
    wrong = np.full(50, 0.99), np.zeros(50)
    assert "no threshold reached" in by_risk(*wrong, alpha=0.1, beta=0.1).why


def test_a_poor_guide_costs_acceptance_and_not_the_promise() -> None:
    generator = np.random.default_rng(3)
    risk = risks(calibrated)
    broken = 0
    for _ in range(300):
        c, y = sample(generator, 100, calibrated)
        found = by_risk(
            *sample(generator, 100, calibrated), alpha=0.1, beta=0.1, guide=(1.5 - c, 1.0 - y)
        )
        broken += found.threshold is not None and risk(found.threshold) > 0.1
    assert broken <= binom.ppf(0.975, 300, 0.1)


@pytest.mark.parametrize(("n", "k"), [(10, 0), (50, 3), (200, 20), (3, 3)])
def test_the_p_value_is_that_of_the_exact_test(n: int, k: int) -> None:
    losses = np.repeat([1.0, 0.0], [k, n - k])
    exact = binomtest(k, n, 0.1, alternative="less").pvalue
    assert p_value(losses, 0.1) == pytest.approx(exact, rel=1e-9)


def test_soft_losses_get_a_valid_and_weaker_bound() -> None:
    assert p_value(np.full(100, 0.02), 0.1) < 0.05
    assert p_value(np.full(100, 0.1), 0.1) == 1.0
    assert p_value(np.full(100, 0.5), 0.1) == 1.0
    assert p_value(np.array([]), 0.1) == 1.0
    generator = np.random.default_rng(0)
    small = [p_value(generator.beta(1.0, 9.0, 60), 0.1) <= 0.1 for _ in range(500)]
    assert np.mean(small) <= 0.1


@pytest.mark.parametrize(("alpha", "beta"), [(0.0, 0.1), (1.0, 0.1), (0.1, 0.0), (0.1, 1.5)])
def test_risks_that_are_none_are_refused(alpha: float, beta: float) -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        by_risk(np.ones(5), np.ones(5), alpha=alpha, beta=beta)


def test_the_cheapest_threshold_by_hand() -> None:
    c = np.array([0.9, 0.8, 0.7, 0.6])
    y = np.array([1.0, 1.0, 0.0, 0.0])
    w = np.ones(4)
    found = by_cost(c, y, w, Costs(wrong=10.0, escalated=1.0))
    assert (found.threshold, found.coverage, found.risk) == (0.8, 0.5, 0.0)
    assert "mean cost 0.5;" in found.why
    assert "cut at 0.9" in found.why
    assert by_cost(c, y, w, Costs(10.0, 20.0)).threshold == 0.6, "escalating is dearer than errors"
    assert by_cost(c, y, w, Costs(10.0, -1.0)).threshold is None
    heavy = np.array([1.0, 1.0, 0.0, 9.0])
    assert by_cost(c, y, heavy, Costs(10.0, 1.0)).coverage == pytest.approx(2 / 11)
    soft = by_cost(c, np.array([1.0, 0.5, 0.5, 0.5]), w, Costs(10.0, 1.0))
    assert soft.threshold == 0.9


def test_costs_of_a_calibrated_model_lead_to_the_ideal_cut() -> None:
    c, y = sample(np.random.default_rng(1), 20_000, calibrated)
    found = by_cost(c, y, np.ones(len(c)), Costs(5.0, 1.0))
    assert found.threshold == pytest.approx(0.8, abs=0.03)


@pytest.mark.parametrize("numbers", [(1.0, 0.5, 1.0), (0.0, 0.5, 1.0), (float("nan"), 1.0, 0.0)])
def test_costs_that_make_no_sense_are_refused(numbers: tuple[float, float, float]) -> None:
    with pytest.raises(ValueError, match="cost"):
        Costs(*numbers)


def test_a_coverage_is_reached_with_the_highest_threshold() -> None:
    c = np.array([0.9, 0.8, 0.8, 0.6])
    y = np.array([1.0, 1.0, 0.0, 0.0])
    w = np.ones(4)
    cuts = {share: by_coverage(c, y, w, share).threshold for share in (0.2, 0.25, 0.5, 0.75, 1.0)}
    assert cuts == {0.2: 0.9, 0.25: 0.9, 0.5: 0.8, 0.75: 0.8, 1.0: 0.6}
    found = by_coverage(c, y, w, 0.5)
    assert (found.coverage, found.risk) == (0.75, pytest.approx(1 / 3))
    assert by_coverage(c, y, np.array([1.0, 1.0, 1.0, 7.0]), 0.3).threshold == 0.8
    with pytest.raises(ValueError, match="share above 0"):
        by_coverage(c, y, w, 0.0)
