"""Connections that trickle, idle, talk nonsense, are too many, or end in the middle."""

from __future__ import annotations

import json
import socket
import time

import httpx
import pytest

from readoff.serve.settings import Settings

from .rig import ASK, ONE, Held, Running, running, wait_for

QUICK = Settings(
    header_timeout=0.2, body_timeout=0.3, keep_alive=1, body_limit=2000, drain_seconds=0
)
HEAD = f"POST {ASK} HTTP/1.1\r\nhost: t\r\ncontent-type: application/json\r\n"


def ready(limits: Settings = QUICK) -> Held:
    engine = Held()
    engine.open.set()
    return engine


def read_all(connection: socket.socket) -> bytes:
    """Until the server closes."""
    found = b""
    while True:
        try:
            chunk = connection.recv(65536)
        except ConnectionResetError:
            return found
        if not chunk:
            return found
        found += chunk


def send_for_ever(connection: socket.socket) -> None:
    """Chunks of a body, until the server has enough."""
    for _ in range(100_000):
        connection.sendall(b"3e8\r\n" + b" " * 1000 + b"\r\n")


def still_answers(server: Running) -> None:
    assert httpx.post(server.url + ASK, json=ONE).status_code == 200


def test_a_head_that_trickles_gets_408() -> None:
    with running(ready(), QUICK) as server, server.connect() as connection:
        start = time.monotonic()
        for byte in HEAD[:6]:
            connection.sendall(byte.encode())
            time.sleep(0.02)  # each byte in time, all of them not
        found = read_all(connection)
        assert found.startswith(b"HTTP/1.1 408")
        assert b'"request_timeout"' in found
        assert 0.15 < time.monotonic() - start < 5
        still_answers(server)


def test_a_connection_that_says_nothing_is_closed() -> None:
    with running(ready(), QUICK) as server, server.connect() as connection:
        assert read_all(connection) == b""
        wait_for(lambda: not server.server.server_state.connections)


def test_a_body_that_trickles_gets_408() -> None:
    with running(ready(), QUICK) as server, server.connect() as connection:
        connection.sendall(f"{HEAD}content-length: 500\r\n\r\n".encode())
        for _ in range(4):
            connection.sendall(b" ")
            time.sleep(0.05)
        found = read_all(connection)
        assert found.startswith(b"HTTP/1.1 408")
        assert b"connection: close" in found.lower()
        assert b'"request_timeout"' in found
        still_answers(server)


def test_a_second_request_may_not_trickle_either() -> None:
    with running(ready(), QUICK) as server, server.connect() as connection:
        body = json.dumps(ONE).encode()
        whole = f"{HEAD}content-length: {len(body)}\r\n\r\n".encode() + body
        for _ in range(2):
            connection.sendall(whole)
            wait_for(lambda: b'"answers"' in connection.recv(65536))
        connection.sendall(HEAD[:20].encode())
        assert read_all(connection).startswith(b"HTTP/1.1 408")


def test_an_idle_connection_is_closed_after_a_while_and_not_before() -> None:
    with running(ready(), QUICK) as server, server.connect() as connection:
        body = json.dumps(ONE).encode()
        connection.sendall(f"{HEAD}content-length: {len(body)}\r\n\r\n".encode() + body)
        assert b"200 OK" in connection.recv(65536)
        start = time.monotonic()
        assert read_all(connection) == b""
        assert 0.6 < time.monotonic() - start < 10


@pytest.mark.parametrize("declared", [True, False], ids=["declared", "chunked"])
def test_a_body_that_is_too_large_is_answered(declared: bool) -> None:
    with running(ready(), QUICK) as server, server.connect() as connection:
        if declared:
            connection.sendall(f"{HEAD}content-length: 20000\r\n\r\n".encode() + b" " * 20000)
        else:
            connection.sendall(f"{HEAD}transfer-encoding: chunked\r\n\r\n".encode())
            for _ in range(20):
                connection.sendall(b"3e8\r\n" + b" " * 1000 + b"\r\n")
            connection.sendall(b"0\r\n\r\n")
        found = read_all(connection)
        assert found.startswith(b"HTTP/1.1 413")
        assert b'"request_too_large"' in found
        still_answers(server)


def test_a_body_declared_far_too_large_is_refused_unread() -> None:
    with running(ready(), QUICK) as server, server.connect() as connection:
        connection.sendall(
            f"{HEAD}content-length: 99999999999\r\nexpect: 100-continue\r\n\r\n".encode()
        )
        found = read_all(connection)
        assert found.startswith(b"HTTP/1.1 413")  # and no "100 Continue" before


def test_an_endless_body_ends() -> None:
    with running(ready(), QUICK) as server, server.connect() as connection:
        connection.sendall(f"{HEAD}transfer-encoding: chunked\r\n\r\n".encode())
        with pytest.raises(OSError, match=r"."):
            send_for_ever(connection)
        still_answers(server)


@pytest.mark.parametrize(
    "nonsense",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 40,  # TLS
        b"GET\r\n\r\n",
        b"hello\r\n\r\n",
        b"POST / HTTP/1.1\r\ncontent-length: -5\r\n\r\n",
        b"POST / HTTP/1.1\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\nhello",
        b"POST / HTTP/1.1\r\nbad header\r\n\r\n",
    ],
)
def test_what_is_not_http_gets_400(nonsense: bytes) -> None:
    with running(ready(), QUICK) as server, server.connect() as connection:
        connection.sendall(nonsense)
        found = read_all(connection)
        assert found.startswith(b"HTTP/1.1 400")
        head, _, body = found.partition(b"\r\n\r\n")
        assert json.loads(body)["detail"]["error_type"] == "api_usage_error"
        assert b"application/json" in head
        still_answers(server)


def test_a_head_that_is_too_large_gets_431() -> None:
    with running(ready(), QUICK) as server, server.connect() as connection:
        connection.sendall(HEAD.encode())
        try:
            for number in range(200):
                connection.sendall(f"x-{number}: {'a' * 1000}\r\n".encode())
        except OSError:
            pass  # closed while we were sending
        found = read_all(connection)
        # Bytes that we sent after the end may have reset it; h11 has a limit of its own, and 400.
        assert found == b"" or found.startswith((b"HTTP/1.1 431", b"HTTP/1.1 400"))
        still_answers(server)


def test_too_many_connections_are_told_so() -> None:
    limits = Settings(max_connections=3, drain_seconds=0)
    with running(ready(), limits) as server:
        kept = [server.connect() for _ in range(3)]
        wait_for(lambda: len(server.server.server_state.connections) == 3)
        with server.connect() as one_more:
            found = read_all(one_more)
        assert found.startswith(b"HTTP/1.1 503")
        assert b"retry-after: 1" in found
        for connection in kept:
            connection.close()
        wait_for(lambda: not server.server.server_state.connections)
        still_answers(server)


def test_clients_that_hang_up_in_the_middle() -> None:
    engine = ready()
    with running(engine, QUICK) as server:
        for end in (5, len(HEAD), len(HEAD) + 30):
            with server.connect() as connection:
                connection.sendall(f"{HEAD}content-length: 500\r\n\r\n ".encode()[:end])
        wait_for(lambda: not server.server.server_state.connections)
        still_answers(server)
    assert "error" not in server.log.getvalue().replace('"error": null', "")


def test_pipelined_requests_are_answered_in_order() -> None:
    with running(ready(), QUICK) as server, server.connect() as connection:
        both = b""
        for name in ("first", "second"):
            body = json.dumps({"state": "x", "questions": {name: {"type": "noul"}}}).encode()
            both += f"{HEAD}content-length: {len(body)}\r\n\r\n".encode() + body
        connection.sendall(both)
        found = b""
        while found.count(b"HTTP/1.1 200") < 2 or not found.endswith(b"}"):
            found += connection.recv(65536)
        assert found.index(b'"first"') < found.index(b'"second"')


@pytest.mark.parametrize("method", ["POST", "GET"])
def test_an_offered_upgrade_is_ignored(method: str) -> None:
    """`curl --http2`: the request is answered as if it offered nothing, and so is the next."""
    offer = "connection: Upgrade, HTTP2-Settings\r\nupgrade: h2c\r\nhttp2-settings: AAMAAABk\r\n"
    body = json.dumps(ONE).encode() if method == "POST" else b""
    path = ASK if method == "POST" else "/health/live"
    head = f"{method} {path} HTTP/1.1\r\nhost: t\r\ncontent-type: application/json\r\n"
    whole = f"{head}{offer}content-length: {len(body)}\r\n\r\n".encode() + body
    last = f"{head}connection: close\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body
    with running(ready(), QUICK) as server, server.connect() as connection:
        connection.sendall(whole + whole)  # in one piece
        found = b""
        while found.count(b"HTTP/1.1 200") < 2 or not found.endswith(b"}"):
            found += connection.recv(65536)
        for start in range(0, len(whole), 50):  # and in many
            connection.sendall(whole[start : start + 50])
        connection.sendall(last)
        found += read_all(connection)
    assert found.count(b"HTTP/1.1 200") == found.count(b"HTTP/1.1") == 4


@pytest.mark.parametrize(
    "start",
    [f"POST {ASK}", "POST /v1/nothing", "POST /v1/models"],
    ids=["deadline", "path", "method"],
)
def test_a_refused_request_gets_one_answer_however_long_its_body(start: str) -> None:
    limits = Settings(body_limit=100_000, drain_seconds=0)
    size = 400_000
    with running(ready(), limits) as server, server.connect() as connection:
        head = f"{start} HTTP/1.1\r\nhost: t\r\nx-readoff-deadline-ms: soon\r\n"
        connection.sendall(f"{head}content-length: {size}\r\n\r\n".encode())
        for _ in range(size // 10_000):
            connection.sendall(b" " * 10_000)
        connection.sendall(b"GET /health/live HTTP/1.1\r\nhost: t\r\nconnection: close\r\n\r\n")
        found = read_all(connection)
        assert found.count(b"HTTP/1.1") == 2  # the next request of the connection too
        assert found.startswith(b"HTTP/1.1 4")
        assert b"HTTP/1.1 431" not in found
        assert b"HTTP/1.1 200" in found


@pytest.mark.parametrize("how", ["large", "slow"])
def test_the_body_of_a_refused_request_is_read_within_limits(how: str) -> None:
    with running(ready(), QUICK) as server, server.connect() as connection:
        connection.sendall(
            b"POST /v1/nothing HTTP/1.1\r\nhost: t\r\ncontent-length: 99999999\r\n\r\n"
        )
        found = connection.recv(65536)
        assert found.startswith(b"HTTP/1.1 404")
        if how == "slow":
            connection.sendall(b" ")
            assert read_all(connection) == b""
        else:
            with pytest.raises(OSError, match=r"."):
                send_for_ever(connection)
        wait_for(lambda: not server.server.server_state.connections)


def test_a_head_that_is_too_large_at_once_gets_431() -> None:
    with running(ready(), QUICK) as server, server.connect() as connection:
        head = f"GET /health/live HTTP/1.1\r\nhost: t\r\nx: {'a' * 70_000}\r\nconnection: close"
        connection.sendall(f"{head}\r\n\r\n".encode())
        found = read_all(connection)
        assert found.startswith(b"HTTP/1.1 431")
        assert found.count(b"HTTP/1.1") == 1


def test_the_deadline_counts_while_the_body_comes() -> None:
    limits = Settings(drain_seconds=0)  # 20 s for a body
    with running(ready(), limits) as server, server.connect() as connection:
        start = time.monotonic()
        head = f"{HEAD}x-readoff-deadline-ms: 100\r\ncontent-length: 500\r\n\r\n "
        connection.sendall(head.encode())
        found = read_all(connection)
        assert found.startswith(b"HTTP/1.1 408")
        assert b'"deadline_exceeded"' in found
        assert 0.05 < time.monotonic() - start < 10
