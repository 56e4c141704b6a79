"""The order of steps, the learning rate, the clock."""

from __future__ import annotations

from collections import Counter

import pytest

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
