"""`Stays`: httptools' protocol, which reads a request that offers an upgrade like any other."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import httptools

if TYPE_CHECKING:
    from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol as _Base
else:
    _Base = object

_OFFER = (b"upgrade", b"http2-settings")


class Stays(_Base):
    """Mixed into it, before its guard.

    A server may ignore an offered upgrade (RFC 9110, 7.8); httptools would end there and lose the
    body. So what offers one is parsed again without the offer.
    """

    _offered = False
    _in_body = False

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._plain = Parser(self)
        self.parser = self._plain  # type: ignore[assignment]

    def on_message_begin(self) -> None:
        """See httptools."""
        self._offered = self._in_body = False
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """See httptools."""
        self._offered = self._plain.upgrades()
        if not self._offered:
            self._in_body = True
            super().on_headers_complete()

    def on_message_complete(self) -> None:
        """See httptools."""
        self._in_body = False
        if not self._offered:
            super().on_message_complete()

    def plain_head(self) -> bytes:
        """The head that was just read, without its offer."""
        method = self.parser.get_method()
        lines = [b"%s %s HTTP/1.1" % (method, self.url)]
        for name, value in self.headers:
            if name == b"connection":
                tokens = [token.strip() for token in value.split(b",")]
                value = b", ".join(t for t in tokens if t.lower() not in _OFFER)
            if value and name not in _OFFER:
                lines.append(name + b": " + value)
        return b"\r\n".join(lines) + b"\r\n\r\n"


class Parser:
    """httptools' parser, begun anew where a request offers an upgrade."""

    def __init__(self, protocol: Stays) -> None:
        self._protocol = protocol
        self._inner = self._begin()

    def _begin(self) -> Any:
        made = httptools.HttpRequestParser(self._protocol)
        with contextlib.suppress(AttributeError):  # what uvicorn sets
            made.set_dangerous_leniencies(lenient_data_after_close=True)
        return made

    def feed_data(self, data: bytes) -> None:
        """See httptools."""
        while True:
            try:
                self._inner.feed_data(data)
            except httptools.HttpParserUpgrade as stop:
                if not self._protocol._offered:
                    raise
                data = self._protocol.plain_head() + data[stop.args[0] :]
                self._inner = self._begin()
            else:
                return

    def upgrades(self) -> bool:
        """Whether the request being read offers to. CONNECT doesn't offer, it asks."""
        return bool(self._inner.should_upgrade() and self._inner.get_method() != b"CONNECT")

    def should_upgrade(self) -> bool:
        """See httptools. Never seen by uvicorn where it is an offer."""
        return bool(self._inner.should_upgrade())

    def should_keep_alive(self) -> bool:
        """See httptools."""
        return bool(self._inner.should_keep_alive())

    def get_method(self) -> bytes:
        """See httptools."""
        return bytes(self._inner.get_method())

    def get_http_version(self) -> str:
        """See httptools."""
        return str(self._inner.get_http_version())
