"""The clock of a training that has a limit."""

from __future__ import annotations

from readoff.learn.pace import Pace


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
