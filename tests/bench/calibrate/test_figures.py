"""Figures by hand: risk and coverage, the parts of the Brier score, errors, Proposition 1."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from readoff.bench.calibrate.figures import (
    brier_parts,
    figures,
    is_soft,
    outcomes_of,
    width_error,
)
from readoff.bench.calibrate.fit import Recipe, calibrated, out_of_fold
from readoff.bench.calibrate.selective import risk_coverage
from readoff.bench.calibrate.utility import RIGHT_OR_WRONG, realised_loss, utility_bound
from readoff.bench.metrics import quality
from readoff.bench.records import Ask, Given
from readoff.engine.card_fields import Prior, Temperature
from readoff.engine.questions import Choice

from .made import by_hand, drawn, together

SHARES = st.lists(
    st.tuples(st.floats(0, 1), st.floats(0, 1), st.floats(0.1, 5)), min_size=1, max_size=40
)


def test_the_curve_by_hand() -> None:
    found = risk_coverage(
        np.array([0.6, 0.9, 0.8, 0.8]),
        np.array([0.0, 1.0, 1.0, 0.0]),
        np.array([1.0, 1.0, 1.0, 1.0]),
    )
    assert found.threshold.tolist() == [0.9, 0.8, 0.6]
    assert found.coverage.tolist() == [0.25, 0.75, 1.0]
    assert found.risk.tolist() == [0.0, pytest.approx(1 / 3), 0.5]


def test_the_area_is_the_mean_risk_over_coverage() -> None:
    """Against the sum over many tiny steps, with groups of equal confidence in any order."""
    generator = np.random.default_rng(0)
    c = np.round(generator.random(60), 1)
    y = (generator.random(60) < c).astype(float)
    found = risk_coverage(c, y, np.ones(60))
    _, place = np.unique(-c, return_inverse=True)
    mass, wrong = np.bincount(place), np.bincount(place, weights=1 - y)
    fine = 4000
    rates = np.repeat(wrong / mass, mass * fine)
    steps = np.arange(1, len(rates) + 1)
    assert found.area == pytest.approx(float((np.cumsum(rates) / steps).mean()), abs=1e-4)
    assert found.best < found.area


def test_areas_of_the_extremes() -> None:
    ones = np.ones(10)
    c = np.linspace(0.5, 0.9, 10)
    assert risk_coverage(c, ones, ones).area == 0.0
    assert risk_coverage(c, 0 * ones, ones).area == pytest.approx(1.0)
    assert risk_coverage(0 * c, np.repeat([1.0, 0.0], 5), ones).area == pytest.approx(0.5)
    sorted_ = risk_coverage(c, np.repeat([0.0, 1.0], 5), ones)
    assert sorted_.best == pytest.approx(0.5 + 0.5 * np.log(0.5))
    assert sorted_.area == pytest.approx(sorted_.best)


@settings(deadline=None)
@given(SHARES)
def test_the_parts_of_the_brier_score_add_up(rows: list[tuple[float, float, float]]) -> None:
    c, y, w = (np.array(column) for column in zip(*rows, strict=True))
    parts = brier_parts(c, y, w)
    whole = float((w * (y * (1 - c) ** 2 + (1 - y) * c**2)).sum() / w.sum())
    total = parts.reliability - parts.resolution + parts.uncertainty + parts.within
    assert total == pytest.approx(whole, abs=1e-9)
    assert min(parts.reliability, parts.resolution, parts.uncertainty) >= -1e-12


def test_a_constant_forecast_has_no_resolution() -> None:
    y = np.repeat([1.0, 0.0], [30, 10])
    parts = brier_parts(np.full(40, 0.75), y, np.ones(40))
    assert parts.reliability == pytest.approx(0.0)
    assert parts.resolution == pytest.approx(0.0)
    assert parts.uncertainty == pytest.approx(0.1875)
    assert parts.within == pytest.approx(0.0)


def test_equal_width_by_hand() -> None:
    c = np.array([0.05, 0.95, 0.99, 1.0])
    y = np.array([0.0, 1.0, 1.0, 0.0])
    # Bins of a tenth: 0.05 off by 0.05; the other three by |2 - 2.94| together.
    assert width_error(c, y, np.ones(4), bins=10) == pytest.approx((0.05 + 0.94) / 4)


def test_figures_are_those_of_the_bench() -> None:
    rows = drawn(80, 3, temperature=2.0)
    p = calibrated(rows, Prior(), Temperature())
    question = Choice(criteria=dict.fromkeys("012"))
    asks = [
        Ask(str(i), {"f": question}, {"f": {str(int(t)): 1.0}})
        for i, t in enumerate(rows.target.argmax(axis=1))
    ]
    given_ = [{"f": Given(str(int(row.argmax())), tuple(row.tolist()))} for row in p]
    expected = quality(asks, given_, "readout", resamples=50)
    found = figures(rows, p, resamples=50).quality
    for one, other in ((found.accuracy, expected.accuracy), (found.ece, expected.ece)):
        assert one is not None
        assert other is not None
        assert (one.value, one.low, one.high) == pytest.approx((other.value, other.low, other.high))
    assert found.distribution_nll is not None
    assert expected.distribution_nll is not None
    assert found.distribution_nll.value == pytest.approx(expected.distribution_nll.value)
    assert found.distribution_brier is not None
    assert expected.distribution_brier is not None
    assert found.distribution_brier.value == pytest.approx(expected.distribution_brier.value)


def test_calibrating_lowers_every_error_towards_that_of_chance() -> None:
    rows = together(
        drawn(300, 4, temperature=4.0, spread=1.0),
        drawn(300, 2, temperature=3.0, name="n", kind="noul", seed=1),
    )
    before = figures(rows, calibrated(rows, Prior(), Temperature()), resamples=50)
    after = figures(rows, out_of_fold(rows, Recipe()), resamples=50)
    assert before.quality.ece is not None
    assert after.quality.ece is not None
    assert after.quality.ece.value < before.quality.ece.value - 0.05
    assert after.width_ece[0] < before.width_ece[0] - 0.05
    assert before.classwise_ece is not None
    assert after.classwise_ece is not None
    assert after.classwise_ece[0] < before.classwise_ece[0] - 0.03
    assert after.classwise_ece[1] is not None
    assert after.width_ece[1] is not None
    assert after.classwise_ece[0] < 1.7 * after.classwise_ece[1]
    assert after.width_ece[0] < 2.0 * after.width_ece[1]
    assert after.brier.reliability < before.brier.reliability / 3


def test_classes_of_few_rows_have_no_error_of_their_own() -> None:
    few = by_hand([[1.0, 0.0]] * 10, [0, 1] * 5)
    found = figures(few, calibrated(few, Prior(), Temperature()), resamples=20)
    assert found.classwise_ece is None


def test_soft_labels_have_no_floor_to_compare_with() -> None:
    hard = drawn(100, 2)
    soft = replace(hard, target=np.where(np.arange(100)[:, None] == 3, 0.5, hard.target))
    assert is_soft(soft).nonzero()[0].tolist() == [3]
    p = calibrated(hard, Prior(), Temperature())
    with_floor, without = figures(hard, p, resamples=20), figures(soft, p, resamples=20)
    assert with_floor.quality.calibrated_ece is not None
    assert with_floor.width_ece[1] is not None
    assert without.quality.ece is not None
    assert without.quality.calibrated_ece is None
    assert without.width_ece[1] is None
    assert without.classwise_ece is not None
    assert without.classwise_ece[1] is None


def test_padded_places_never_win() -> None:
    rows = by_hand([[-50.0, -60.0], [1.0, 2.0, 3.0]], [0, 2])
    columns = outcomes_of(rows, calibrated(rows, Prior(), Temperature()))
    assert columns.correct.tolist() == [1.0, 1.0]
    assert columns.confidence[0] == pytest.approx(1 / (1 + np.exp(-10)))


@settings(deadline=None)
@given(
    SHARES,
    st.tuples(*[st.floats(0, 10)] * 4),
    st.integers(1, 20),
)
def test_the_realised_loss_never_exceeds_its_bound(
    rows: list[tuple[float, float, float]], u: tuple[float, float, float, float], bins: int
) -> None:
    s, y, w = (np.array(column) for column in zip(*rows, strict=True))
    found = realised_loss(s, np.round(y), w, ((u[0], u[1]), (u[2], u[3])), bins)
    assert -1e-12 <= found.realised <= found.bound + 1e-9
    assert found.bound == pytest.approx(2 * max(u) * found.ece)


def test_proposition_1_by_hand() -> None:
    # Everyone says 0.6, and 40 % are true: "yes" is chosen and worth 0.4, "no" would be worth 0.6.
    score, truth = np.full(10, 0.6), np.repeat([1.0, 0.0], [4, 6])
    found = realised_loss(score, truth, np.ones(10), RIGHT_OR_WRONG)
    assert found.realised == pytest.approx(0.2)
    assert found.ece == pytest.approx(0.2)
    assert found.bound == pytest.approx(0.4)
    right = realised_loss(np.full(10, 0.4), truth, np.ones(10))
    assert (right.realised, right.bound) == (pytest.approx(0.0), pytest.approx(0.0))


def test_the_bound_is_reached_in_the_limit() -> None:
    """Utilities that cross at the score: twice the gap, times U."""
    u = ((1.0, 0.0), (0.0, 1.0))
    truth = np.repeat([1.0, 0.0], [4000, 6000])
    found = realised_loss(np.full(10_000, 0.5001), truth, np.ones(10_000), u)
    assert found.realised == pytest.approx(found.bound, rel=1e-2)


@pytest.mark.parametrize(("u", "ece"), [(-1.0, 0.1), (1.0, -0.1), (float("nan"), 0.1)])
def test_bounds_of_nonsense_are_refused(u: float, ece: float) -> None:
    with pytest.raises(ValueError, match="finite and not negative"):
        utility_bound(u, ece)


def test_utilities_and_weights_that_are_none_are_refused() -> None:
    one = np.ones(2)
    with pytest.raises(ValueError, match="none below 0"):
        realised_loss(one, one, one, ((-1.0, 0.0), (0.0, 1.0)))
    with pytest.raises(ValueError, match="all zero"):
        realised_loss(one, one, 0 * one)
    assert utility_bound(3.0, 0.05) == pytest.approx(0.3)
