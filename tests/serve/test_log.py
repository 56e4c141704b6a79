"""The log: a JSON object a line, nothing of what users send, and nobody waits for it."""

from __future__ import annotations

import json
import logging
import signal
import threading
import warnings
from io import StringIO

import pytest

from readoff.engine.errors import StepError
from readoff.serve.forward import forwarding
from readoff.serve.log import Log
from readoff.serve.settings import Settings

from .rig import ASK, ONE, Held, client_of

SECRET = "the patient's name is Ada"
ASKED = {"state": SECRET, "questions": {SECRET: {"type": "noul", "instructions": SECRET}}}


def lines_of(stream: StringIO) -> list[dict[str, object]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


@pytest.mark.parametrize(
    "error",
    [None, RuntimeError(SECRET), StepError(SECRET)],
    ids=["answered", "a fault of the server", "a failed pass"],
)
def test_nothing_of_what_users_send_is_logged(error: Exception | None) -> None:
    engine = Held(error=error)
    engine.open.set()
    stream = StringIO()
    log = Log("debug", stream)
    with client_of(engine, log=log) as client:
        client.inner._transport.raise_app_exceptions = False  # type: ignore[attr-defined]
        client.post(ASK, json=ASKED)
        client.post(ASK, json=ASKED | {"questions": {SECRET: {"type": SECRET}}})
        client.post(ASK, json=ASKED | {"model": SECRET})
        client.post(f"/{SECRET}?{SECRET}", json=ASKED)
        client.post(ASK, content=SECRET.encode())
    log.close()
    lines = lines_of(stream)
    assert len(lines) == 5
    assert "Ada" not in stream.getvalue()
    first = lines[0]
    assert first["event"] == "request"
    assert first["route"] == ASK
    if error is None:
        assert first["status"] == 200
        assert first["questions"] == 1
        assert first["input_tokens"] == 30
        assert {"read_ms", "parse_ms", "engine_ms", "render_ms"} <= first.keys()
    else:
        assert first["status"] == 500
        assert first["level"] == "error"
        assert type(error).__name__ in str(first["raised"])
    assert [line["status"] for line in lines[1:]] == [422, 400, 404, 422]


def test_text_is_logged_where_that_is_asked_for() -> None:
    engine = Held()
    engine.open.set()
    stream = StringIO()
    log = Log("info", stream)
    with client_of(engine, Settings(log_text=True), log=log) as client:
        client.post(ASK, json=ASKED)
    log.close()
    assert SECRET in stream.getvalue()


def test_levels() -> None:
    engine = Held()
    engine.open.set()
    counts = {}
    for level in ("debug", "info", "warning", "none"):
        stream = StringIO()
        log = Log(level, stream)
        with client_of(engine, log=log) as client:
            client.post(ASK, json=ONE)
            client.get("/health/live")
        log.close()
        counts[level] = len(lines_of(stream))
    assert counts == {"debug": 2, "info": 1, "warning": 0, "none": 0}


class Stuck(StringIO):
    """A stream that nobody reads."""

    def __init__(self) -> None:
        super().__init__()
        self.go = threading.Event()

    def write(self, text: str) -> int:
        self.go.wait()
        return super().write(text)


def test_a_log_that_nobody_reads_holds_nobody_up() -> None:
    stream = Stuck()
    log = Log("info", stream)
    for number in range(12_000):  # more than there is room for; none of them waits
        log("info", "line", number=number)
    stream.go.set()
    log.close()
    lines = lines_of(stream)
    lost = [line for line in lines if line["event"] == "log lines lost"]
    assert len(lines) - len(lost) + sum(int(str(line["count"])) for line in lost) == 12_000
    assert lost


def test_a_log_that_is_gone_stops_nothing() -> None:
    stream = StringIO()
    stream.close()
    log = Log("info", stream)
    log("info", "line")
    log.close()


def test_a_signal_handler_may_log_whatever_it_interrupts() -> None:
    stream = StringIO()
    log = Log("info", stream)
    handled = 0

    def handle(sig: int, frame: object) -> None:
        nonlocal handled
        handled += 1
        log("info", "signal")

    log("info", "first")
    before = signal.signal(signal.SIGALRM, handle)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
        for number in range(5000):
            log("info", "line", number=number)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    log.close()
    assert handled > 0
    assert len(lines_of(stream)) == 5001 + handled


def test_other_loggers_and_warnings_are_lines_without_user_text() -> None:
    stream = StringIO()
    log = Log("info", stream)
    before = logging.getLogger().handlers[:]
    with forwarding(log):
        logging.getLogger("some.exporter").error("Failed to export: %s", SECRET)
        logging.getLogger("other").warning(SECRET)
        try:
            raise RuntimeError(SECRET)
        except RuntimeError:
            logging.getLogger("other").exception("It broke.")
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            logging.captureWarnings(True)
            warnings.warn(SECRET, stacklevel=1)
        logging.getLogger("other").info("not this")
    log.close()
    assert logging.getLogger().handlers == before
    assert "Ada" not in stream.getvalue()
    lines = lines_of(stream)
    assert [line["logger"] for line in lines] == ["some.exporter", "other", "other", "py.warnings"]
    assert lines[0]["message"] == "Failed to export: %s"
    assert lines[0]["level"] == "error"
    assert "message" not in lines[1]
    assert "test_log.py" in str(lines[1]["at"])
    assert "RuntimeError" in str(lines[2]["raised"])
