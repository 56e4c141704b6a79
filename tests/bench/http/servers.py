"""Opponents on loopback: a chat endpoint, a `/v1/systemone` server, and ways to misbehave."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Answer = Callable[[dict[str, Any]], Any]
"""From a request's body to the response's: an object, raw bytes, or (status, object)."""


class Fake(ThreadingHTTPServer):
    """Answers `path` by `answer`, and `/v1/models` by `models`. Remembers what it was asked."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, path: str, answer: Answer, models: Any) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.path, self.answer, self.models = path, answer, models
        self.asked: list[dict[str, Any]] = []
        self.keys: list[str | None] = []
        self.busy = 0
        self.busiest = 0
        self.lock = threading.Lock()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hung up is no news."""


class _Handler(BaseHTTPRequestHandler):
    server: Fake
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        found = self.path == "/v1/models" and self.server.models is not None
        self._send(200 if found else 404, self.server.models if found else {"detail": "none"})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with self.server.lock:
            self.server.asked.append(body)
            self.server.keys.append(self.headers.get("Authorization"))
            self.server.busy += 1
            self.server.busiest = max(self.server.busiest, self.server.busy)
        try:
            made = self.server.answer(body) if self.path == self.server.path else (404, {})
        finally:
            with self.server.lock:
                self.server.busy -= 1
        if made is None:  # hang up without an answer
            self.close_connection = True
            return
        status, content = made if isinstance(made, tuple) else (200, made)
        self._send(status, content)

    def _send(self, status: int, content: Any) -> None:
        data = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        """Quiet."""


@contextmanager
def serving(server: Fake) -> Iterator[Fake]:
    """`server` in a thread of its own, until the block ends."""
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def chat(answer: Answer | None = None) -> Fake:
    """An OpenAI-compatible endpoint that says `{"choice": "billing", …}` unless told otherwise."""
    return Fake(
        "/v1/chat/completions",
        answer or (lambda body: said('{"choice": "billing", "confidence": 0.9}')),
        {"object": "list", "data": [{"id": "tiny-chat", "object": "model"}]},
    )


def said(text: Any) -> dict[str, Any]:
    """A chat completion."""
    return {
        "choices": [{"message": {"role": "assistant", "content": text}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 50, "completion_tokens": 12},
    }


def systemone(answer: Answer | None = None) -> Fake:
    """A server of the wire contract: the first option has 0.8, the others share the rest."""
    return Fake(
        "/v1/systemone",
        answer or decided,
        {"models": [{"name": "tiny-one", "description": "", "release_date": "2026-01-01"}]},
    )


def decided(body: dict[str, Any]) -> dict[str, Any]:
    """The response of a well-behaved server."""
    answers = {name: _answer(question) for name, question in body["questions"].items()}
    usage = {"input_tokens": 40, "output_tokens": len(answers)}
    return {"model": "tiny-one", "answers": answers, "usage": usage}


def _answer(question: dict[str, Any]) -> dict[str, Any]:
    if question["type"] == "noul":
        return {"type": "noul", "noul": 0.8}
    criteria = question["criteria"]
    names = (
        list(criteria) if question["type"] == "choice" else [str(i) for i in range(len(criteria))]
    )
    rest = 0.2 / (len(names) - 1)
    made = {
        "type": question["type"],
        "confidence": 0.5,
        "probabilities": {name: 0.8 if name == names[0] else rest for name in names},
    }
    if question["type"] == "choice":
        return made | {"choice": names[0]}
    return made | {"score": 0.3, "legend": dict(zip(names, criteria, strict=True))}


def slow(answer: Answer, seconds: float) -> Answer:
    """`answer`, after a while."""

    def late(body: dict[str, Any]) -> Any:
        time.sleep(seconds)
        return answer(body)

    return late
