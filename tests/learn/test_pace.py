"""The clock of a training, and what is expected of it."""

from __future__ import annotations

import pytest

from readoff.learn.pace import Pace


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


def test_a_limit_tells_how_many_steps_are_to_be_expected() -> None:
    now = 0.0
    pace = Pace(600, 100.0, lambda: now)
    assert pace.expected(0) == 600  # nothing is known yet
    pace.evaluation = 10.0
    for _ in range(4):
        now += 5.0
        pace.stepped(5.0, 700)
    assert pace.expected(4) == 4 + 14  # 70 seconds are left for steps of 5
    now = 97.0
    assert pace.expected(4) == 4
    assert pace.is_up()


def test_no_more_than_there_are() -> None:
    now = 0.0
    short, free = (Pace(6, limit, lambda: now) for limit in (1000.0, None))
    for pace in (short, free):
        pace.stepped(1.0, 1)
        assert pace.expected(1) == 6


def test_whether_there_is_room_for_a_step() -> None:
    now = 40.0
    for limit, has_room in ((None, True), (81.0, True), (80.0, False), (20.0, False)):
        pace = Pace(6, limit, lambda: now)
        pace.before, pace.evaluation = 40.0, 40.0
        assert pace.has_room() is has_room
