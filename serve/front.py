"""`Front`: what surrounds every request: its id, its key, its line in the log, its errors."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any

from readoff.engine import wire
from readoff.serve.body import HEAD_LIMIT, Receive, header
from readoff.serve.browsers import check_browser
from readoff.serve.dialects import dialect_of
from readoff.serve.errors import HttpError, failure_of, unavailable
from readoff.serve.keys import Keys
from readoff.serve.log import Log, where
from readoff.serve.metrics import Metrics
from readoff.serve.record import ID_HEADER, KEY, Record
from readoff.serve.served import Models
from readoff.serve.tracing import Tracing

Scope = MutableMapping[str, Any]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

_ID = ID_HEADER.encode()
_PROTECTED = ("/v1/", "/metrics")
_QUIET = ("/health/", "/metrics")


class Front:
    """An ASGI application around another. Errors of either come out in the dialect of the path."""

    def __init__(
        self,
        app: App,
        models: Models,
        keys: Keys,
        metrics: Metrics,
        log: Log,
        tracing: Tracing,
        routes: Mapping[str, str],
    ) -> None:
        self._app, self._models, self._keys = app, models, keys
        self._metrics, self._log, self._tracing, self._routes = metrics, log, tracing, routes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        record = Record()
        scope[KEY] = record
        status = 0

        async def tell(message: MutableMapping[str, Any]) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = [*message.get("headers", ()), (_ID, record.id.encode())]
                if self._models.draining.is_set():
                    headers.append((b"connection", b"close"))
                message = {**message, "headers": headers}
            await send(message)

        self._metrics.in_flight.inc()
        try:
            await self._guarded(scope, receive, tell, record)
        except asyncio.CancelledError:
            if status == 0:
                await refuse(scope, tell, unavailable("The server is shutting down."))
            raise
        except Exception as error:
            failure = failure_of(error)
            record.error = failure.kind
            if not isinstance(error, HttpError):
                record.raised = where(error)
            if status == 0:
                await refuse(scope, tell, failure)
        finally:
            self._metrics.in_flight.dec()
            self._over(scope, record, status)

    async def _guarded(self, scope: Scope, receive: Receive, send: Send, record: Record) -> None:
        if head_bytes(scope) > HEAD_LIMIT:  # it came at once, so the connection let it pass
            raise HttpError(431, "request_too_large", "The request's head is too large.")
        if scope["path"].startswith(_PROTECTED):
            self._keys.check(header(scope, b"authorization"))
            if not self._keys:
                check_browser(scope)
        await self._app(scope, receive, send)

    def _over(self, scope: Scope, record: Record, status: int) -> None:
        path = scope["path"]
        route = self._routes.get(path, "other")
        self._metrics.request(route, status)
        self._tracing.request(scope, record, route, status)
        level = "debug" if path.startswith(_QUIET) else "info"
        if status >= 500 and record.error != "unavailable":
            level = "error"
        if not self._log.writes(level):
            return
        milliseconds = {f"{k}_ms": round(v * 1e3, 3) for k, v in record.stages.items()}
        self._log(
            level,
            "request",
            id=record.id,
            method=scope["method"],
            route=route,
            status=status or None,
            gone=record.gone or None,
            error=record.error,
            raised=record.raised,
            model=record.model,
            questions=record.questions,
            input_tokens=record.input_tokens,
            cached_tokens=record.cached_tokens,
            ms=round((time.perf_counter() - record.started) * 1e3, 3),
            **milliseconds,
            text=record.text,
        )


def head_bytes(scope: Scope) -> int:
    """About how long the request's head is."""
    target = len(scope.get("raw_path") or b"") + len(scope.get("query_string") or b"")
    return target + sum(len(name) + len(value) + 4 for name, value in scope["headers"])


async def refuse(scope: Scope, send: Send, failure: HttpError) -> None:
    """Answer with an error."""
    status, content = dialect_of(scope["path"]).failure(failure)
    body = wire.dumps(content).encode("utf-8", "backslashreplace")
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    headers += [(key.encode(), value.encode()) for key, value in failure.headers.items()]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
