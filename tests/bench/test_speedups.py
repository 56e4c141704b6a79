"""Speed-ups: ratios of medians, paired, with intervals that hold what they should."""

from __future__ import annotations

import numpy as np
import pytest

from readoff.bench.speedups import least_spread, speedup


def test_a_constant_ratio_is_as_wide_as_another_run_may_differ() -> None:
    found = speedup([2.0, 4.0, 6.0], [1.0, 2.0, 3.0])
    floor = np.exp(0.3 / np.sqrt(3))
    assert (found.ratio, found.low, found.high) == pytest.approx((2.0, 2.0 / floor, 2.0 * floor))


def test_one_pair_says_little_and_many_say_more() -> None:
    widths = []
    for pairs in (1, 4, 100):
        found = speedup([2.0] * pairs, [1.0] * pairs)
        widths.append(found.high / found.low)
    assert widths == pytest.approx([np.exp(0.6), np.exp(0.3), np.exp(0.06)])


def test_pairs_stay_together() -> None:
    """A slow spell that hits both contenders widens nothing."""
    spell = np.repeat([1.0, 10.0], 10)
    found = speedup((3.0 * spell).tolist(), spell.tolist())
    floor = least_spread(20)
    assert (found.low, found.high) == pytest.approx((3.0 / floor, 3.0 * floor))


def test_the_same_seed_gives_the_same_interval() -> None:
    noise = np.random.default_rng(1).lognormal(0, 0.2, (2, 12))
    slow, fast = (5 * noise[0]).tolist(), noise[1].tolist()
    assert speedup(slow, fast, 7) == speedup(slow, fast, 7)
    assert speedup(slow, fast, 7) != speedup(slow, fast, 8)


def test_the_interval_covers_the_truth() -> None:
    """Of 200 experiments with a true ratio of 5, some 95 % hold it."""
    rng = np.random.default_rng(0)
    held = 0
    for trial in range(200):
        noise = rng.lognormal(0, 0.1, (2, 15))
        found = speedup((5 * noise[0]).tolist(), noise[1].tolist(), trial)
        held += found.low <= 5 <= found.high
    assert 175 <= held <= 200


@pytest.mark.parametrize(("slow", "fast"), [([], []), ([1.0], [1.0, 2.0])])
def test_what_is_not_paired_is_refused(slow: list[float], fast: list[float]) -> None:
    with pytest.raises(ValueError, match="paired"):
        speedup(slow, fast)
