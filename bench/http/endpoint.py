"""One server that answers questions: found out what it speaks, asked, its failures counted."""

from __future__ import annotations

import ipaddress
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Literal

import httpx

from readoff.bench.http import chat, systemone
from readoff.bench.records import Ask, Given, Run
from readoff.engine.errors import ReadoffError
from readoff.engine.strict_json import loads

Kind = Literal["openai", "systemone"]
PATHS: Mapping[Kind, str] = {"openai": "/v1/chat/completions", "systemone": "/v1/systemone"}
TIMEOUT = 60.0
"""Seconds after which a request is given up."""
MAX_BODY = 8 * 2**20
"""Bytes of an answer; a longer one is nonsense."""


class DownError(ReadoffError):
    """The endpoint can't be reached, or didn't answer in time."""


class Endpoint:
    """A server behind `url`: its address, or that of the very resource.

    `kind` None asks the server's list of models which dialect it speaks. `model` None takes the
    first it offers. `key` is sent as a bearer token. Use as a context manager.

    Raises ReadoffError when the URL isn't one, nothing answers there, or it speaks neither dialect.
    """

    def __init__(
        self,
        url: str,
        *,
        kind: Kind | None = None,
        model: str | None = None,
        key: str | None = None,
        timeout: float = TIMEOUT,
    ) -> None:
        try:
            address = httpx.URL(url)
        except httpx.InvalidURL as error:
            raise ReadoffError(f"The opponent {url!r} is no URL ({error}).") from None
        if address.scheme not in ("http", "https") or not address.host:
            raise ReadoffError(
                f"The opponent {url!r} is no URL; write it as http://HOST:PORT or https://HOST."
            )
        self.timeout = timeout
        self.url = str(address.copy_with(username=None, password=None, query=None, fragment=None))
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        self._client = httpx.Client(
            headers=headers,
            timeout=timeout,
            trust_env=not _loopback(address.host),
            limits=httpx.Limits(max_connections=None),
        )
        try:
            base, named = _split(self.url)
            self.kind, offered = self._discover(base, kind or named, model)
        except BaseException:
            self._client.close()
            raise
        self.model = offered
        self.target = base + PATHS[self.kind]

    def __enter__(self) -> Endpoint:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._client.close()

    def ask(self, ask: Ask) -> Run:
        """All questions of `ask`: in one call, or in one call each where chat is spoken.

        Answers that make no sense are failures in the run. Raises `DownError` when there is none.
        """
        started = time.perf_counter()
        if self.kind == "systemone":
            body, failure = self._post(systemone.request_json(ask, self.model))
            given, computed = systemone.read(body, ask.questions)
            if failure is not None:
                given = {name: Given(None, failure=failure) for name in ask.questions}
            return Run(given, time.perf_counter() - started, computed, 0)
        given, computed, generated = {}, 0, 0
        for name, question in ask.questions.items():
            body, failure = self._post(chat.request_json(ask.state, question, self.model))
            answer, prompt, new = chat.read(body, question)
            given[name] = answer if failure is None else Given(None, failure=failure)
            computed += prompt + new
            generated += new
        return Run(given, time.perf_counter() - started, computed, generated)

    def _discover(self, base: str, kind: Kind | None, model: str | None) -> tuple[Kind, str]:
        """(dialect, model): both dialects have a list of models, in different words."""
        if kind is not None and model is not None:
            return kind, model
        body, failure = self._read("GET", f"{base}/v1/models", None)
        found: dict[Kind, list[str]] = {
            "systemone": _names(body, "models", "name"),
            "openai": _names(body, "data", "id"),
        }
        for dialect, names in found.items():
            if names and kind in (None, dialect):
                return dialect, model or names[0]
        if kind == "systemone":
            return kind, model or "jev-latest"
        said = failure or "no list of models that either dialect knows"
        raise ReadoffError(
            f"{self.url} doesn't say what it is: {base}/v1/models gave {said}. "
            "Name the dialect with --opponent-kind openai or systemone, "
            "and the model with --opponent-model."
        )

    def _post(self, content: dict[str, Any]) -> tuple[Any, str | None]:
        return self._read("POST", self.target, content)

    def _read(self, method: str, url: str, content: Any) -> tuple[Any, str | None]:
        """(parsed body, what is wrong with it)."""
        deadline = time.monotonic() + self.timeout
        try:
            with self._client.stream(method, url, json=content) as response:
                data = bytearray()
                for block in response.iter_bytes():
                    data += block
                    if len(data) > MAX_BODY:
                        return None, "an answer of more than 8 MB"
                    if time.monotonic() > deadline:  # a timeout of httpx is one of each read
                        raise httpx.ReadTimeout("the answer came too slowly")
        except httpx.TimeoutException:
            raise DownError(
                f"{self.url} didn't answer within {self.timeout:g} s. Is it overloaded? "
                "Give it longer with --opponent-timeout."
            ) from None
        except httpx.HTTPError as error:
            reason = " ".join(str(error).split()) or type(error).__name__
            raise DownError(
                f"{self.url} can't be reached: {reason}. Is the server running?"
            ) from None
        if response.status_code in (401, 403):
            raise ReadoffError(
                f"{self.url} refuses us (HTTP {response.status_code}). "
                "Put its key into READOFF_OPPONENT_KEY."
            )
        if response.status_code != 200:
            return None, f"HTTP {response.status_code}"
        try:
            return loads(bytes(data)), None
        except ReadoffError:
            return None, "an answer that isn't JSON"


def _names(body: Any, field: str, key: str) -> list[str]:
    entries = body.get(field) if isinstance(body, Mapping) else None
    if not isinstance(entries, list):
        return []
    named = [entry.get(key) for entry in entries if isinstance(entry, Mapping)]
    return [name for name in named if isinstance(name, str)]


def _split(url: str) -> tuple[str, Kind | None]:
    """(address without the resource, dialect if the resource tells it)."""
    url = url.rstrip("/")
    for kind, path in PATHS.items():
        if url.endswith(path):
            return url.removesuffix(path), kind
    return url.removesuffix("/v1"), None


def _loopback(host: str) -> bool:
    """A proxy named by the environment doesn't lead to this very machine."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
