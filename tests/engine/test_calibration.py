"""The readout's arithmetic, in float64."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from readoff.engine.calibration import (
    check_temperature,
    choice_confidence,
    probabilities,
    score_confidence,
)
from readoff.engine.errors import CardError, NumericsError

LOGITS = st.lists(st.floats(-1e4, 1e4), min_size=1, max_size=255)
TEMPERATURES = st.floats(1e-3, 1e3)


def test_the_temperature_divides() -> None:
    assert probabilities([2, 0], None, 2)[0] == pytest.approx(0.7310585786300049, abs=1e-15)
    assert probabilities([2, 0])[0] == pytest.approx(0.8807970779778823, abs=1e-15)


def test_the_prior_is_in_raw_logits_and_comes_before_the_temperature() -> None:
    expected = 1 / (1 + math.exp(-(3 - 1 - 0) / 4))
    assert probabilities([3, 0], [1, 0], 4)[0] == pytest.approx(expected, abs=1e-15)


def test_one_option_is_certain() -> None:
    assert probabilities([-7.0]).tolist() == [1.0]
    assert choice_confidence([1.0]) == score_confidence([1.0]) == 1.0


@given(LOGITS, TEMPERATURES)
def test_probabilities_are_a_distribution_in_the_order_of_the_logits(
    z: list[float], temperature: float
) -> None:
    p = probabilities(z, None, temperature)
    assert p.dtype == np.float64
    assert p.sum() == pytest.approx(1, abs=1e-12)
    assert (p >= 0).all()
    assert z[int(p.argmax())] == pytest.approx(max(z), abs=1e-9)


@given(LOGITS, TEMPERATURES, st.floats(-1e3, 1e3))
def test_a_prior_that_is_the_same_for_all_changes_nothing(
    z: list[float], temperature: float, shift: float
) -> None:
    moved = probabilities(z, [shift] * len(z), temperature)
    np.testing.assert_allclose(moved, probabilities(z, None, temperature), atol=1e-6)


def test_many_rows_at_once() -> None:
    z = np.array([[1.0, 2.0, 3.0], [3.0, 2.0, 1.0]])  # [N, L]
    p = probabilities(z, [0.5, 0, 0], 1.5)
    for row, got in zip(z, p, strict=True):
        np.testing.assert_array_equal(got, probabilities(row, [0.5, 0, 0], 1.5))


def test_extreme_numbers_neither_overflow_nor_divide_by_zero() -> None:
    assert probabilities([1e307, -1e307], None, 1e-4).tolist() == [1.0, 0.0]
    assert probabilities([1.0, 0.0], None, 1e-4).tolist() == [1.0, 0.0]
    assert probabilities([1e-20, 0.0], None, 1e4).tolist() == [0.5, 0.5]


@pytest.mark.parametrize(
    "z", [[math.nan, 0.0], [math.inf, 0.0], [-math.inf, -math.inf], [-math.inf, 0.0], [], 1.0]
)
def test_logits_that_are_no_finite_numbers_are_refused(z: Any) -> None:
    with pytest.raises(NumericsError):
        probabilities(z)


@pytest.mark.parametrize(
    "value", [0, -1, -0.0, math.nan, math.inf, -math.inf, True, "1.0", None, [1.0], 10**400, 1j]
)
def test_temperatures_that_are_no_positive_real_numbers_are_refused(value: Any) -> None:
    with pytest.raises(CardError, match="temperature"):
        check_temperature(value)
    with pytest.raises(CardError, match="temperature"):
        probabilities([1.0, 2.0], None, value)


@pytest.mark.parametrize("value", [1e-46, 0.99e-4, 1.01e4, 1e39])
def test_temperatures_out_of_range_are_refused(value: float) -> None:
    with pytest.raises(CardError, match=r"between 0\.0001 and 10000"):
        check_temperature(value)


@pytest.mark.parametrize("value", [1e-4, 1e4, 1, 0.5, np.float32(2), np.int64(3)])
def test_temperatures_of_any_real_kind_are_taken(value: Any) -> None:
    checked = check_temperature(value)
    assert type(checked) is float
    assert checked == float(value)


@pytest.mark.parametrize("prior", [[1.0], [1.0, 2.0, 3.0], [[0.0, 0.0]], [math.nan, 0.0]])
def test_a_prior_that_does_not_fit_is_refused(prior: Any) -> None:
    with pytest.raises(CardError, match="prior"):
        probabilities([1.0, 2.0], prior)


def test_the_confidence_of_the_contract() -> None:
    assert score_confidence([0, 0.57, 0.43]) == pytest.approx(0.355, abs=1e-12)
    assert score_confidence([0, 0.95, 0.05]) == pytest.approx(0.925, abs=1e-12)
    assert choice_confidence([0.88, 0.12]) == pytest.approx(0.76, abs=1e-12)


@given(LOGITS)
def test_confidences_lie_between_0_and_1(z: list[float]) -> None:
    p = probabilities(z)
    assert 0 <= choice_confidence(p) <= 1
    assert 0 <= score_confidence(p) <= 1


@pytest.mark.parametrize("n", [2, 3, 10, 255])
def test_the_ends_of_both_scales(n: int) -> None:
    sure = np.eye(n)[n // 2]
    assert choice_confidence(sure) == score_confidence(sure) == 1.0
    assert choice_confidence(np.full(n, 1 / n)) == pytest.approx(0, abs=1e-12)
    torn = (np.eye(n)[0] + np.eye(n)[n - 1]) / 2
    assert score_confidence(torn) == 0.0
