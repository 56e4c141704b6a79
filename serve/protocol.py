"""`Guard`: limits of a connection that uvicorn's own protocols don't set."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, ClassVar

from readoff.engine import wire
from readoff.serve.body import HEAD_LIMIT, LINGER
from readoff.serve.record import ID_HEADER, new_id
from readoff.serve.settings import Settings

if TYPE_CHECKING:
    from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol as _Base
else:
    _Base = object

_GRACE = 1.0
"""Seconds that a connection without a request stays open once the server stops: its client may
have sent one that wasn't read yet."""


class Guard(_Base):
    """Mixed into one of uvicorn's protocols.

    A request's head must arrive within `header_timeout` and 64 KiB, whatever trickles in; beyond
    `max_connections` a connection is told so and closed; and what was accepted before a stop is
    answered before the connection ends.
    """

    settings: ClassVar[Settings]
    conn: Any

    _timer: asyncio.TimerHandle | None = None
    _head = 0
    _rest: int | None = None
    """Bytes read of a body whose request was answered before it was there, if there is one."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """See asyncio."""
        super().connection_made(transport)
        if len(self.connections) > self.settings.max_connections:
            self._refuse(503, "unavailable", "Too many connections are open.")
            return
        self._arm()

    def connection_lost(self, exc: Exception | None) -> None:
        """See asyncio."""
        self._disarm()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """See asyncio."""
        if self.transport.is_closing():
            return
        super().data_received(data)
        if self.transport.is_closing():
            self._disarm()
        elif self._busy:
            self._disarm()
            self._head, self._rest = 0, None
        elif self._in_body:
            self._drain(len(data))
        elif self._rest is not None:
            self._head, self._rest = 0, None
            self._arm(self.settings.keep_alive)
        else:
            self._head += len(data)
            if self._head > HEAD_LIMIT:
                self._refuse(431, "request_too_large", "The request's head is too large.")
            elif self._timer is None:
                self._arm()

    def shutdown(self) -> None:
        """The server stops: end when what runs or may be on its way is answered."""
        if self.cycle is None and not self.transport.is_closing():
            self._arm(_GRACE)
        else:
            super().shutdown()

    def send_400_response(self, msg: str) -> None:
        """What arrived isn't HTTP."""
        self._refuse(400, "api_usage_error", "The request is not valid HTTP.")

    @property
    def _busy(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    @property
    def _in_body(self) -> bool:
        """Whether a body has begun and isn't over: h11's state; httptools' has its own."""
        import h11

        return bool(self.conn.their_state is h11.SEND_BODY)

    def _drain(self, size: int) -> None:
        """Read on, within limits, so that the sender sees the answer and no broken connection."""
        if self._rest is None:
            self._rest = self._head = 0
            self._arm(self.settings.body_timeout)
        self._rest += size
        if self._rest > LINGER * self.settings.body_limit:
            self._disarm()
            self.transport.close()

    def _arm(self, seconds: float | None = None) -> None:
        self._disarm()
        late = self.settings.header_timeout if seconds is None else seconds
        self._timer = self.loop.call_later(late, self._late)

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _late(self) -> None:
        self._timer = None
        if self._busy or self.transport.is_closing():
            return
        if self._head:
            self._refuse(408, "request_timeout", "The request's head didn't arrive in time.")
        else:
            self.transport.close()

    def _refuse(self, status: int, kind: str, message: str) -> None:
        self._disarm()
        body = wire.dumps({"detail": {"error_type": kind, "message": message}}).encode()
        head = (
            f"HTTP/1.1 {status} {_PHRASES[status]}\r\ncontent-type: application/json\r\n"
            f"content-length: {len(body)}\r\nretry-after: 1\r\nconnection: close\r\n"
            f"{ID_HEADER}: {new_id()}\r\n\r\n"
        )
        self.transport.write(head.encode() + body)
        self.transport.close()


_PHRASES = {
    400: "Bad Request",
    408: "Request Timeout",
    431: "Request Header Fields Too Large",
    503: "Service Unavailable",
}


def protocol_of(settings: Settings) -> type[asyncio.Protocol]:
    """The fastest of uvicorn's protocols that is installed, guarded."""
    bases: tuple[Any, ...]
    try:
        from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

        from readoff.serve.parser import Stays

        bases = (Stays, Guard, HttpToolsProtocol)
    except ImportError:
        from uvicorn.protocols.http.h11_impl import H11Protocol

        bases = (Guard, H11Protocol)
    made: type[asyncio.Protocol] = type("Guarded", bases, {"settings": settings})
    return made
