"""More requests than fit: shed at once, with a time to come back; and clients that go away."""

from __future__ import annotations

import asyncio
import json
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from readoff.engine.answers import Decision
from readoff.engine.engine import Engine
from readoff.serve.app import make_app
from readoff.serve.errors import overloaded
from readoff.serve.log import Log
from readoff.serve.served import Models, Served
from readoff.serve.server import Server, listen, url_of
from readoff.serve.settings import Settings

from .rig import ASK, DECIDE, ONE, SOON, Borrowed, Held, Running, running, wait_for

FEW = Settings(max_queue=4, drain_seconds=0)


def post(server: Running, path: str = ASK, body: object = ONE) -> httpx.Response:
    return httpx.post(server.url + path, json=body, timeout=20)


def test_beyond_the_queue_it_sheds_and_recovers_at_once() -> None:
    engine = Held()
    with running(engine, FEW) as server, ThreadPoolExecutor(4) as pool:
        waiting = [pool.submit(post, server) for _ in range(4)]
        wait_for(lambda: engine.asked == 4)
        asked = {
            "model": "tiny",
            "input": "x",
            "questions": [{"type": "predicate", "instructions": "?"}],
        }
        for _ in range(3):
            shed = post(server)
            assert shed.status_code == 429
            assert shed.json()["detail"]["error_type"] == "overloaded"
            assert 1 <= int(shed.headers["retry-after"]) <= 30
            assert 50 <= int(shed.headers["retry-after-ms"]) <= 30_000
        other = post(server, DECIDE, asked)
        assert other.status_code == 429
        assert other.json()["error"]["type"] == "rate_limit_error"
        assert post(server, body={}).status_code == 422  # what is wrong stays wrong
        assert httpx.get(server.url + "/health/ready").status_code == 200
        engine.open.set()
        assert [future.result().status_code for future in waiting] == [200] * 4
        assert post(server).status_code == 200
    assert engine.asked == 5


def test_a_client_that_goes_away_leaves_the_queue() -> None:
    engine = Held()
    with running(engine, FEW) as server:
        for _ in range(4):
            with server.connect() as connection:
                connection.sendall(request_bytes())
                wait_for(lambda: engine.asked > engine.cancelled)
        wait_for(lambda: engine.cancelled == 4)
        wait_for(lambda: server.models.all[0].running == 0)
        engine.open.set()
        assert post(server).status_code == 200
        metrics = httpx.get(server.url + "/metrics").text
    assert 'readoff_requests_total{route="/v1/systemone",status="499"} 4.0' in metrics
    assert "readoff_requests_in_flight 1.0" in metrics  # this scrape


def test_a_job_of_a_client_that_goes_away_leaves_the_engine(shared: Engine) -> None:
    before = shared.stats()["cancelled"]
    standing, release = threading.Event(), threading.Event()

    def stand() -> None:
        standing.set()
        release.wait(SOON)

    with running(Borrowed(shared), FEW) as server:
        holder = threading.Thread(target=shared._worker.scheduler.call, args=(stand,))
        holder.start()
        assert standing.wait(SOON)
        with server.connect() as connection:
            connection.sendall(request_bytes())
            wait_for(lambda: shared.stats()["waiting"] == 1)
        wait_for(lambda: server.models.all[0].running == 0)
        release.set()
        holder.join()
        wait_for(lambda: shared.stats()["cancelled"] == before + 1)
        assert post(server).status_code == 200


def request_bytes() -> bytes:
    """A whole request."""
    body = json.dumps(ONE).encode()
    head = (
        f"POST {ASK} HTTP/1.1\r\nhost: t\r\ncontent-type: application/json\r\n"
        f"content-length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def test_while_a_model_loads_it_is_alive_and_not_ready() -> None:
    go = threading.Event()
    engine = Held()
    engine.open.set()

    def load() -> Held:
        go.wait(SOON)
        return engine

    models = Models([Served("tiny")])
    settings = Settings(drain_seconds=0)
    server = Server(make_app(models, settings), models, {"tiny": load}, settings, Log("none"))
    sock = listen("127.0.0.1", 0)
    url = url_of(sock)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [sock]})
    thread.start()
    try:
        assert httpx.get(f"{url}/health/live").status_code == 200
        ready = httpx.get(f"{url}/health/ready")
        assert ready.status_code == 503
        assert "tiny" in ready.json()["detail"]["message"]
        early = httpx.post(url + ASK, json=ONE)
        assert early.status_code == 503
        assert early.headers["retry-after"] == "1"
        go.set()
        wait_for(lambda: httpx.get(f"{url}/health/ready").status_code == 200)
        assert httpx.post(url + ASK, json=ONE).status_code == 200
    finally:
        go.set()
        server.stop()
        thread.join(SOON)


@pytest.mark.parametrize("seconds", [0.0, 0.01, 2.6, 1e9])
def test_the_time_to_come_back(seconds: float) -> None:
    headers = overloaded(3, seconds).headers
    whole, exact = int(headers["retry-after"]), int(headers["retry-after-ms"])
    assert 1 <= whole <= 30
    assert 50 <= exact <= 30_000
    assert abs(whole - max(1.0, exact / 1e3)) <= 0.5


def test_a_client_that_left_makes_no_room_before_its_work_is_over() -> None:
    class Slow(Held):
        """Its work goes on for a while after it was cancelled."""

        async def adecide(self, *given: Any, **how: Any) -> Decision:
            try:
                return await super().adecide(*given, **how)
            except asyncio.CancelledError:
                while not self.open.is_set():
                    await asyncio.sleep(0.002)
                raise

    engine = Slow()
    with running(engine, Settings(max_queue=1, drain_seconds=0)) as server:
        with server.connect() as connection:
            connection.sendall(request_bytes())
            wait_for(lambda: engine.asked == 1)
        wait_for(lambda: engine.cancelled == 1)
        assert server.models.all[0].running == 1
        assert post(server).status_code == 429
        engine.open.set()
        wait_for(lambda: server.models.all[0].running == 0)
        assert post(server).status_code == 200
