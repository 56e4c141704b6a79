"""The concurrency sweep: how much it asks, when it stops, and what is kept when a server dies."""

from __future__ import annotations

import itertools
import threading
from typing import Any

import pytest

from readoff.bench.http.endpoint import Endpoint
from readoff.bench.http.sweep import Bounds, Level, sweep
from readoff.engine.errors import ReadoffError

from . import servers
from .test_endpoint import ASK, TEAM


def test_every_level_asks_what_it_is_bounded_to() -> None:
    # Nobody is answered until as many requests as the level names are there: fewer in flight
    # would break the barrier, more would show in `busiest`, however slow the machine is.
    gate = threading.Barrier(1)
    seen: list[int] = []

    def together(body: dict[str, Any]) -> Any:
        gate.wait(timeout=60)
        return servers.decided(body)

    with (
        servers.serving(servers.systemone(together)) as server,
        Endpoint(server.url) as endpoint,
    ):

        def begin(level: Level) -> None:
            nonlocal gate
            gate = threading.Barrier(level.concurrency)
            server.busiest = 0

        levels = []
        for level in sweep(endpoint, [ASK, TEAM], Bounds((1, 2, 4), requests=8), begin):
            levels.append(level)
            seen.append(server.busiest)
    assert seen == [1, 2, 4]
    assert [level.concurrency for level in levels] == [1, 2, 4]
    for level in levels:
        assert len(level.runs) == 8
        assert sorted(number for number, _ in level.runs) == [0] * 4 + [1] * 4
        assert level.decisions == 4 * 3 + 4
        assert level.complete
        assert not level.failures


def test_time_bounds_a_level_too() -> None:
    with (
        servers.serving(servers.systemone(servers.slow(servers.decided, 0.05))) as server,
        Endpoint(server.url) as endpoint,
    ):
        (level,) = sweep(endpoint, [TEAM], Bounds((1,), requests=1000, seconds=0.12))
    assert 1 <= len(level.runs) <= 3
    assert level.wall >= 0.05


def test_nonsense_is_counted_and_the_sweep_goes_on() -> None:
    counter = itertools.count()

    def sometimes(body: dict[str, Any]) -> Any:
        return servers.decided(body) if next(counter) % 2 else b"no"

    with (
        servers.serving(servers.systemone(sometimes)) as server,
        Endpoint(server.url) as endpoint,
    ):
        (level,) = sweep(endpoint, [TEAM], Bounds((1,), requests=6))
    assert level.failures == {"an answer that isn't JSON": 3}
    assert level.decisions == 3


def test_an_endpoint_that_dies_leaves_what_was_measured() -> None:
    counter = itertools.count()
    seen: list[Level] = []

    def dying(body: dict[str, Any]) -> Any:
        return servers.decided(body) if next(counter) < 5 else None

    with (
        servers.serving(servers.systemone(dying)) as server,
        Endpoint(server.url) as endpoint,
        pytest.raises(ReadoffError, match="after 5 answered requests of 9, 1 at a time"),
    ):
        list(sweep(endpoint, [TEAM], Bounds((1, 2), requests=9), seen.append))
    (level,) = seen
    assert (len(level.runs), level.lost, level.complete) == (5, [0, 0, 0], False)
    assert level.failures == {"no answer": 3}
    assert level.wall > 0


def test_our_own_mistakes_are_not_taken_for_the_servers() -> None:
    class Broken:
        def ask(self, ask: object) -> None:
            raise ZeroDivisionError("a bug")

    broken: Any = Broken()
    with pytest.raises(ZeroDivisionError):
        list(sweep(broken, [TEAM], Bounds((1,))))
