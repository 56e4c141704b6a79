"""Servers for tests: in this process, in a thread with a real socket, and as a command."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from typing import Any

import httpx

from readoff.engine.answers import Decision, Usage, build_answer
from readoff.engine.engine import Engine
from readoff.engine.questions import Question
from readoff.serve.app import make_app
from readoff.serve.keys import Keys
from readoff.serve.log import Log
from readoff.serve.served import Answering, Models, Served
from readoff.serve.server import Server, listen, url_of
from readoff.serve.settings import Settings

ROOT = Path(__file__).parents[2]
ASK = "/v1/systemone"
DECIDE = "/v1/decisions"
BODY: dict[str, Any] = {
    "model": "tiny",
    "state": "I was charged twice.",
    "questions": {
        "urgent": {"type": "noul", "instructions": "Is it urgent?"},
        "team": {"type": "choice", "criteria": {"billing": "money", "sales": None}},
        "anger": {"type": "score", "criteria": ["calm", {"label": "cross"}, "furious"]},
    },
}
ONE: dict[str, Any] = {"state": "Hello.", "questions": {"q": {"type": "noul"}}}
SOON = 20.0


class Borrowed:
    """An engine that outlives the server that uses it."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def warmup(self) -> None:
        """Already."""

    def close(self) -> None:
        """Not yet."""


@dataclass
class Held:
    """An engine that answers when it is let go, and remembers who gave up."""

    asked: int = 0
    cancelled: int = 0
    closed: bool = False
    how: list[dict[str, Any]] = field(default_factory=list)
    error: BaseException | None = None
    open: threading.Event = field(default_factory=threading.Event)

    async def adecide(self, state: Any, questions: Mapping[str, Question], **how: Any) -> Decision:
        self.asked += 1
        self.how.append(how)
        try:
            while not self.open.is_set():
                await asyncio.sleep(0.002)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        if self.error is not None:
            raise self.error
        mass = 0.75 if how.get("legal_mass") else None
        answers = {}
        for name, question in questions.items():
            n = len(question.options)
            answers[name] = build_answer(question, [0.0] * n, [1.0 / n] * n, mass)
        return Decision(answers, Usage(30, 10, 20), 1.5, "held")

    def warmup(self) -> None:
        """Nothing to do."""

    def stats(self) -> dict[str, Any]:
        return {"waiting": 3, "steps": 2, "answered": 8, "cache": {"hits": 5, "used_bytes": 7}}

    def info(self) -> dict[str, Any]:
        return {"device": "cpu"}

    def close(self) -> None:
        self.closed = True


def models_of(engine: Answering, name: str = "tiny", **aliases: str) -> Models:
    """One model, warm."""
    return Models([Served(name, "2026-01-01", "A tiny model.", engine)], aliases)


@contextmanager
def client_of(
    engine: Answering,
    settings: Settings | None = None,
    *,
    keys: Sequence[str] = (),
    log: Log | None = None,
) -> Iterator[Client]:
    """Asks an application in this process, without sockets; exceptions come out."""
    app = make_app(models_of(engine), settings, keys=Keys(keys), log=log)
    with asyncio.Runner() as runner:
        client = httpx.AsyncClient(
            transport=httpx.ASGITransport(app=app, raise_app_exceptions=True), base_url="http://t"
        )
        yield Client(runner, client)
        runner.run(client.aclose())


@dataclass
class Client:
    """httpx, blocking, over an event loop of its own."""

    runner: asyncio.Runner
    inner: httpx.AsyncClient

    def get(self, path: str, **options: Any) -> httpx.Response:
        return self.runner.run(self.inner.get(path, **options))

    def post(self, path: str, **options: Any) -> httpx.Response:
        return self.runner.run(self.inner.post(path, **options))


@dataclass
class Running:
    """A server in a thread."""

    url: str
    models: Models
    server: Server
    log: StringIO
    thread: threading.Thread

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    def connect(self) -> socket.socket:
        """A plain connection to it."""
        return socket.create_connection(("127.0.0.1", self.port), timeout=SOON)


@contextmanager
def running(
    engine: Answering, settings: Settings | None = None, *, keys: Sequence[str] = ()
) -> Iterator[Running]:
    """A server on a free port of loopback, in a thread, until the block ends."""
    settings = settings or Settings(drain_seconds=0)
    models = Models([Served("tiny", "2026-01-01", "A tiny model.")])
    text = StringIO()
    log = Log("debug", text)
    app = make_app(models, settings, keys=Keys(keys), log=log)
    server = Server(app, models, {"tiny": lambda: engine}, settings, log)
    sock = listen("127.0.0.1", 0)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [sock]})
    found = Running(url_of(sock), models, server, text, thread)
    thread.start()
    try:
        wait_for(lambda: models.ready)
        yield found
    finally:
        server.stop()
        thread.join(SOON)
        log.close()
        assert not thread.is_alive()


def wait_for(condition: Any, seconds: float = SOON) -> None:
    """Until it holds; fails after `seconds`."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it never came"
        time.sleep(0.005)


_COMMAND = (
    "import typer; from readoff.commands.serve import serve; "
    "app = typer.Typer(); app.command()(serve); app()"
)


def command(*arguments: str) -> list[str]:
    """`readoff serve` with arguments."""
    return [sys.executable, "-c", _COMMAND, *arguments]


@dataclass
class Process:
    """`readoff serve` as a process of its own."""

    url: str
    process: subprocess.Popen[str]
    lines: list[dict[str, Any]]
    reader: threading.Thread

    def events(self, name: str) -> list[dict[str, Any]]:
        """The log's lines of one event."""
        return [line for line in list(self.lines) if line["event"] == name]

    def stop(self, sig: int = signal.SIGTERM) -> int:
        """Signal it, and its exit code."""
        self.process.send_signal(sig)
        code = self.process.wait(SOON)
        self.reader.join(SOON)
        return code


@contextmanager
def process(*arguments: str, environ: Mapping[str, str] | None = None) -> Iterator[Process]:
    """A server that is ready. Each line of its stderr must be JSON."""
    made = subprocess.Popen(
        command("--port", "0", *arguments),
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1", **(environ or {})},
    )
    lines: list[dict[str, Any]] = []

    def read() -> None:
        assert made.stderr is not None
        for line in made.stderr:
            lines.append(json.loads(line))  # noqa: PERF401 - others look meanwhile

    reader = threading.Thread(target=read)
    reader.start()
    found = Process("", made, lines, reader)
    try:
        wait_for(lambda: found.events("ready") or made.poll() is not None, 120)
        assert made.poll() is None, "it ended"
        found.url = found.events("listening")[0]["url"]
        yield found
    finally:
        if made.poll() is None:
            made.kill()
        made.wait()
        reader.join(SOON)
        assert made.stderr is not None
        made.stderr.close()
