"""Calibration error: values by hand, calibrated and miscalibrated data, degenerate samples."""

from __future__ import annotations

import numpy as np
import pytest

from readoff.bench.bootstrap import Floats
from readoff.bench.reliability import calibration_error, equal_mass, reliability


def floats(*values: float) -> Floats:
    return np.array(values, np.float64)


def test_bins_hold_equal_mass_in_the_order_of_the_confidences() -> None:
    c = floats(0.9, 0.1, 0.5, 0.7, 0.3, 0.2)
    assert equal_mass(c, np.ones(6), 3).tolist() == [2, 0, 1, 2, 1, 0]
    # The middle of its mass decides: that of 0.2 lies at 6 tenths.
    assert equal_mass(floats(0.1, 0.2, 0.9), floats(4, 4, 2), 2).tolist() == [0, 1, 1]
    weights = floats(1, 3, 1, 1, 1, 1)  # those at 0.1 and 0.2 hold half of the mass
    assert equal_mass(c, weights, 2).tolist() == [1, 0, 1, 1, 1, 0]


def test_equal_confidences_share_a_bin_whatever_their_order() -> None:
    c = floats(*[0.8] * 7, 0.2, 0.9)
    y = floats(1, 0, 1, 1, 0, 1, 1, 0, 1)
    assert len(set(equal_mass(c, np.ones(9), 5)[:7].tolist())) == 1
    order = np.random.default_rng(0).permutation(9)
    shuffled = calibration_error(c[order], y[order], np.ones(9), 5)
    assert shuffled == pytest.approx(calibration_error(c, y, np.ones(9), 5), abs=1e-15)


def test_the_error_by_hand() -> None:
    """Two bins: confidence 0.3 against accuracy 0.5, and 0.8 against 0.5."""
    c, y = floats(0.2, 0.4, 0.7, 0.9), floats(0, 1, 1, 0)
    assert calibration_error(c, y, np.ones(4), 2) == pytest.approx(0.5 * 0.2 + 0.5 * 0.3)
    found = reliability(c, y, np.ones(4), bins=2)
    assert found.ece == pytest.approx(0.25)
    first, second = found.bins
    assert (first.low, first.high, first.count) == (0.2, 0.4, 2)
    assert (first.confidence, first.accuracy) == pytest.approx((0.3, 0.5))
    assert (second.confidence, second.accuracy) == pytest.approx((0.8, 0.5))


def test_a_weight_counts_like_copies() -> None:
    c, y, w = floats(0.2, 0.4, 0.7, 0.9), floats(0, 1, 1, 0), floats(1, 3, 2, 2)
    copies = np.repeat(np.arange(4), [1, 3, 2, 2])
    expected = calibration_error(c[copies], y[copies], np.ones(8), 2)
    assert calibration_error(c, y, w, 2) == pytest.approx(expected)
    assert reliability(c, y, w, bins=2).ece == pytest.approx(expected)


def test_a_weight_of_zero_is_as_if_the_item_were_not_there() -> None:
    c, y = floats(0.2, 0.4, 0.9, 0.9), floats(0, 1, 1, 0)
    found = reliability(c, y, floats(1, 1, 1, 0), bins=3)
    assert found == reliability(c[:3], y[:3], np.ones(3), bins=3)


def test_calibrated_data_shows_about_what_is_expected_of_it() -> None:
    """Over many samples the measured error has the mean and the spread that were simulated."""
    generator = np.random.default_rng(3)
    c = generator.beta(4, 1.5, 300)
    w = generator.uniform(0.5, 2.0, 300)
    measured = [
        calibration_error(c, (generator.random(300) < c).astype(np.float64), w) for _ in range(400)
    ]
    expected = reliability(c, c, w).calibrated
    error = float(np.std(measured)) / 20.0
    assert np.mean(measured) == pytest.approx(expected.value, abs=4 * error)
    inside = np.mean([expected.low <= m <= expected.high for m in measured])
    assert 0.9 < inside < 0.99


def test_overconfidence_stands_out() -> None:
    generator = np.random.default_rng(4)
    c = generator.uniform(0.6, 1.0, 600)
    y = (generator.random(600) < c - 0.2).astype(np.float64)
    found = reliability(c, y, np.ones(600))
    assert found.ece == pytest.approx(0.2, abs=0.04)
    assert found.ece > 2.0 * found.calibrated.high
    assert all(b.accuracy < b.expected_low for b in found.bins if b.confidence > 0.95)
    assert sum(b.share for b in found.bins) == pytest.approx(1.0)
    assert len(found.bins) == 15


def test_all_the_same_confidence_is_one_bin() -> None:
    found = reliability(np.full(50, 0.8), floats(*[1.0] * 35, *[0.0] * 15), np.ones(50))
    assert len(found.bins) == 1
    assert found.ece == pytest.approx(0.1)
    # |k/50 − 0.8| for k ~ B(50, 0.8): the mean deviation is about sqrt(2/π)·sqrt(0.16/50).
    assert found.calibrated.value == pytest.approx(0.0451, abs=0.003)


def test_certainty_that_is_right_has_no_error() -> None:
    found = reliability(np.ones(20), np.ones(20), np.ones(20))
    assert found.ece == 0.0
    assert (found.calibrated.value, found.calibrated.low, found.calibrated.high) == (0.0, 0.0, 0.0)
    assert reliability(np.zeros(5), np.ones(5), np.ones(5)).ece == 1.0


def test_one_item() -> None:
    found = reliability(floats(0.7), floats(1.0), floats(3.0))
    assert found.ece == pytest.approx(0.3)
    # right with probability 0.7 (error 0.3), else wrong (error 0.7)
    assert found.calibrated.value == pytest.approx(0.42, abs=0.02)
    assert (found.calibrated.low, found.calibrated.high) == pytest.approx((0.3, 0.7))


def test_the_same_seed_simulates_the_same() -> None:
    c, y = floats(0.2, 0.6, 0.9), floats(0, 1, 1)
    first, again, other = (reliability(c, y, np.ones(3), seed=s) for s in (1, 1, 2))
    assert first == again
    assert first.calibrated != other.calibrated


def test_chunks_do_not_change_what_is_simulated(monkeypatch: pytest.MonkeyPatch) -> None:
    c, y = floats(0.2, 0.6, 0.9), floats(0, 1, 1)
    whole = reliability(c, y, np.ones(3))
    monkeypatch.setattr("readoff.bench.reliability._CHUNK", 100)
    assert reliability(c, y, np.ones(3)) == whole
