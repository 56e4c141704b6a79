"""What the yardstick is measured on, and what becomes of numbers that are none."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from readoff.bench.gate import compare, measured
from readoff.bench.records import Given, Run
from readoff.bench.yardstick import _distance, spread

from .asks import ask


def test_the_asks_are_taken_from_everywhere() -> None:
    asks = [ask(f"state {n}") for n in range(1000)]
    each = len(asks[0].questions)
    chosen = spread(asks, 48)
    places = [asks.index(one) for one in chosen]
    assert sum(len(one.questions) for one in chosen) <= 48 < (len(chosen) + 1) * each
    gaps = {b - a for a, b in pairwise(places)}
    assert max(gaps) - min(gaps) <= 1
    assert 1000 - places[-1] <= max(gaps)
    assert spread(asks[:5], 48) == asks[:5]
    assert spread(asks[:3], 1) == asks[:1], "a request is never cut"


class Rung:
    def __init__(self, *answers: Mapping[str, tuple[float, ...]]) -> None:
        self.answers = iter(answers)

    def answer(self, _: object) -> Run:
        given = {name: Given("sales", p) for name, p in next(self.answers).items()}
        return Run(given, 1.0, 1, 0)


def test_a_distance_that_is_no_number_makes_every_gate_red() -> None:
    exact: Any = Rung({"team": (0.2, 0.5, 0.3)}, {"team": (0.2, 0.5, 0.3)})
    rounded: Any = Rung({"team": (0.2, 0.5, 0.3)}, {"team": (0.2, math.nan, 0.3)})
    asks = [ask("one", "team"), ask("two", "team")]
    distance = _distance(exact, rounded, asks)
    assert math.isnan(distance)
    same = Run({"team": Given("sales", (0.2, 0.5, 0.3))}, 1.0, 1, 0)
    assert not compare([asks[0]], "L2", [same], [same], measured(distance, 2).ours).ok
