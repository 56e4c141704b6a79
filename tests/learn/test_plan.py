"""The order of steps, the learning rate, the clock."""

from __future__ import annotations

from collections import Counter

import pytest

from readoff.learn.pace import Pace
from readoff.learn.plan import plan, rate

from .rig import example

ROWS = [example(f"{i}", weight={"due": i % 2}) for i in range(50)]  # 2 or 3 questions each


def test_every_epoch_has_every_row_once() -> None:
    steps = plan(ROWS, batch=20, epochs=3, seed=1)
    for epoch in range(3):
        rows = [row for step in steps if step.epoch == epoch for row in step.rows]
        assert Counter(rows) == Counter(range(50))
    sizes = [sum(2 + row % 2 for row in step.rows) for step in steps]
    assert min(sizes) >= 10
    assert max(sizes) <= 20 + 2 + 10
    assert Counter(step.epoch for step in steps) == dict.fromkeys(range(3), 6)


def test_the_order_is_drawn() -> None:
    first = plan(ROWS, batch=20, epochs=2, seed=1)
    assert first == plan(ROWS, batch=20, epochs=2, seed=1)
    assert first != plan(ROWS, batch=20, epochs=2, seed=2)
    assert first[0].rows != first[len(first) // 2].rows
    assert plan(ROWS, batch=20, epochs=9, seed=1, max_steps=4) == first[:4]


def test_fewer_questions_than_a_batch() -> None:
    (step,) = plan(ROWS[:3], batch=132, epochs=1, seed=0)
    assert sorted(step.rows) == [0, 1, 2]


def test_the_rate_rises_and_falls() -> None:
    assert rate(0.0, 0.1) == 0.0
    assert rate(0.05, 0.1) == pytest.approx(0.5)
    assert rate(0.1, 0.1) == pytest.approx(1.0)
    assert rate(0.55, 0.1) == pytest.approx(0.5)
    assert rate(1.0, 0.1) == pytest.approx(0.0)
    assert rate(7.0, 0.1) == pytest.approx(0.0)
    assert rate(0.0, 0.0) == 1.0


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_the_pace_follows_steps_and_clock() -> None:
    clock = Clock()
    pace = Pace(10, 1000.0, clock)
    pace.before = 50.0
    assert pace.left(0) is None
    assert pace.speed is None
    pace.evaluation = 100.0
    assert pace.share(0) == pytest.approx(50 / 900)
    clock.now += 40.0
    assert pace.elapsed == 90.0
    pace.stepped(40.0, 8000)
    assert pace.speed == 200.0
    assert pace.share(1) == pytest.approx(0.15)  # by steps: it is ahead of the clock
    assert pace.left(1) == pytest.approx(9 * 40.0 + 100.0)
    clock.now += 700.0
    assert pace.share(2) == pytest.approx(790 / 900)
    assert pace.left(2) == pytest.approx(210.0)  # the limit comes first
    assert not pace.is_up()
    clock.now += 71.0
    assert pace.is_up()
    assert not Pace(10, None, clock).is_up()
