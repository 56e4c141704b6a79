"""Many connections at once: nothing lost, nothing crossed, nothing accepted that isn't answered."""

from __future__ import annotations

import asyncio
import json
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from readoff.engine.engine import Engine
from readoff.serve import load
from readoff.serve.load_client import Ask, Outcome, make_asks, many, matches
from readoff.serve.settings import Settings

from .rig import Borrowed, Process, process, running, wait_for

CONNECTIONS = 64


@pytest.fixture(scope="module")
def asks(shared: Engine) -> list[Ask]:
    return load.expected(shared, make_asks(4 * CONNECTIONS))


@pytest.fixture(scope="module")
def server(tiny: Path) -> Iterator[Process]:
    with process("--model", str(tiny), "--dtype", "fp32") as found:
        yield found


def press(url: str, asks: list[Ask], seconds: float, **options: int) -> Outcome:
    options = {"connections": CONNECTIONS} | options
    return asyncio.run(many(url, asks, seconds=seconds, tolerance=1e-5, **options))


def test_the_requests_can_be_told_apart(asks: list[Ask]) -> None:
    assert len({ask.body for ask in asks}) == len(asks)
    ids = [name for ask in asks for name in ask.expected]
    assert len(set(ids)) == len(ids) == 3 * len(asks)
    assert matches(asks[0].expected, asks[0].expected, 0.0)
    assert not matches(asks[0].expected, asks[1].expected, 1.0)
    moved = json.loads(json.dumps(asks[0].expected).replace("0.", "0.9"))
    assert not matches(moved, asks[0].expected, 1e-5)


def test_sixty_four_connections_for_five_seconds(server: Process, asks: list[Ask]) -> None:
    outcome = press(server.url, asks, 5)
    assert outcome.statuses.keys() == {"200"}
    assert outcome.lost == outcome.crossed == outcome.refused == 0, outcome.faults
    assert len(outcome.seconds) > CONNECTIONS


@pytest.mark.slow
def test_sixty_four_connections_for_a_minute(server: Process, shared: Engine) -> None:
    document = load.measure(server.url, shared, pid=server.process.pid, seconds=60)
    print(json.dumps(document))
    found = document["load"]
    assert found["statuses"].keys() == {"200"}
    assert found["lost"] == found["crossed"] == found["refused"] == 0
    assert document["memory"]["grown"] < 0.05
    assert document["overhead"]["requests"] > 100


def test_above_capacity_it_sheds_and_recovers_at_once(shared: Engine, asks: list[Ask]) -> None:
    with running(Borrowed(shared), Settings(max_queue=8, drain_seconds=0)) as server:
        outcome = press(server.url, asks, 1.5)
        assert outcome.statuses.keys() == {"200", "429"}
        assert outcome.lost == outcome.crossed == 0, outcome.faults
        after = press(server.url, asks, 0.3, connections=4)
        assert after.statuses.keys() == {"200"}


def test_a_stop_under_load_loses_nothing_that_was_accepted(tiny: Path, asks: list[Ask]) -> None:
    with process("--model", str(tiny), "--dtype", "fp32") as server:
        timer = threading.Timer(1.0, server.process.send_signal, (signal.SIGTERM,))
        timer.start()
        outcome = press(server.url, asks, 8)
        timer.join()
        assert server.process.wait(20) == 0
        server.reader.join(20)
    assert outcome.lost == outcome.crossed == 0, outcome.faults
    assert outcome.refused == CONNECTIONS  # every connection ended by finding nobody there
    assert outcome.statuses.keys() == {"200"}
    answered = [line for line in server.events("request") if line["status"] == 200]
    assert len(answered) == len(outcome.seconds)
    assert server.lines[-1]["event"] == "stopped"


def test_ready_turns_false_first_and_a_second_signal_ends_it_at_once(tiny: Path) -> None:
    arguments = ("--model", str(tiny), "--dtype", "fp32", "--drain-seconds", "60")
    with process(*arguments) as server:
        assert httpx.get(f"{server.url}/health/ready").status_code == 200
        server.process.send_signal(signal.SIGTERM)
        wait_for(lambda: httpx.get(f"{server.url}/health/ready").status_code != 200)
        answer = httpx.get(f"{server.url}/health/ready")
        assert answer.status_code == 503
        assert answer.headers["connection"] == "close"
        assert httpx.get(f"{server.url}/health/live").status_code == 200
        body = {"state": "x", "questions": {"q": {"type": "noul"}}}
        assert httpx.post(f"{server.url}/v1/systemone", json=body).status_code == 200
        assert server.stop(signal.SIGTERM) == 128 + signal.SIGTERM
