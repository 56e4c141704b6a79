"""Sockets, and what a server does when a model can't be loaded."""

from __future__ import annotations

import errno
import signal
import socket
from io import StringIO

import pytest

from readoff.engine.errors import SourceError
from readoff.serve.app import make_app
from readoff.serve.errors import StartError
from readoff.serve.keys import Keys
from readoff.serve.log import Log
from readoff.serve.served import Models, Served
from readoff.serve.server import Server, _tell, is_loopback, listen, serve, url_of
from readoff.serve.settings import Settings

from .rig import Held


def test_a_port_in_use() -> None:
    with listen("127.0.0.1", 0) as first:
        port = first.getsockname()[1]
        with pytest.raises(StartError, match=rf"Port {port} of 127\.0\.0\.1 is in use"):
            listen("127.0.0.1", port)


def test_hosts_that_are_none() -> None:
    with pytest.raises(StartError, match="can't be looked up"):
        listen("no host at all", 0)
    with pytest.raises(StartError, match="can't be listened on"):
        listen("192.0.2.1", 0)  # kept for documentation: nobody's


def test_a_port_that_needs_rights(monkeypatch: pytest.MonkeyPatch) -> None:
    def bind(self: socket.socket, address: object) -> None:
        raise OSError(errno.EACCES, "Permission denied")

    monkeypatch.setattr("socket.socket.bind", bind)
    with pytest.raises(StartError, match="needs rights"):
        listen("127.0.0.1", 80)


@pytest.mark.parametrize(
    ("host", "keys", "said"),
    [
        ("127.0.0.1", [], "so only this machine reaches it"),
        ("0.0.0.0", [], "ASKS FOR NO KEY"),
        ("0.0.0.0", ["k"], "OTHER MACHINES CAN REACH"),
    ],
)
def test_who_can_reach_it_is_said(host: str, keys: list[str], said: str) -> None:
    stream = StringIO()
    log = Log("info", stream)
    with listen(host, 0) as sock:
        _tell(log, sock, Keys(keys))
        assert is_loopback(sock) == (host == "127.0.0.1")
        assert url_of(sock) == f"http://{host}:{sock.getsockname()[1]}"
    log.close()
    assert said in stream.getvalue()
    level = "info" if host == "127.0.0.1" else "warning"
    assert f'"level": "{level}"' in stream.getvalue()


def test_a_model_that_cannot_be_loaded_ends_the_server() -> None:
    opened = Held()

    def fail() -> Held:
        raise SourceError("There is no such model.")

    models = Models([Served("a"), Served("b")])
    stream = StringIO()
    sock = listen("127.0.0.1", 0)
    with pytest.raises(SourceError, match="no such model"):
        serve(models, {"a": lambda: opened, "b": fail}, sock, log=Log("info", stream))
    assert opened.closed
    assert '"ready"' not in stream.getvalue()
    assert '"stopped"' in stream.getvalue()


def test_a_signal_is_logged_later_and_once() -> None:
    stream = StringIO()
    log, models, settings = Log("info", stream), Models([Served("a")]), Settings()
    server = Server(make_app(models, settings), models, {}, settings, log)
    server.handle_exit(signal.SIGTERM, None)
    assert models.draining.is_set()
    assert log._thread is None  # nothing yet
    for _ in range(2):
        server._say_signal()
    log.close()
    assert stream.getvalue().count('"signal": "SIGTERM"') == 1
