"""The body of a request, within a size and a time, decompressed if need be."""

from __future__ import annotations

import asyncio
import importlib
import zlib
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any

from readoff.serve.errors import HttpError
from readoff.serve.settings import Settings

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]

HEAD_LIMIT = 64 << 10
"""Bytes of a request's head; more is 431."""
CLOSE = {"connection": "close"}
LINGER = 16
"""A body up to so many times too large is read to its end, so that its sender sees the answer and
not a broken connection."""

MEMBERS = 1000
"""Members of a gzip body, at most."""

_WINDOW = 64 << 10
_GRACE = 0.1
"""Seconds that a body has whatever its deadline, so that a wrong one that is on its way is told so
and not that it is late."""


class GoneError(Exception):
    """The client went away."""


def header(scope: MutableMapping[str, Any], name: bytes) -> bytes | None:
    """A header of the request, by its lower-case name."""
    for key, value in scope["headers"]:
        if key == name:
            return bytes(value)
    return None


async def read_body(
    scope: MutableMapping[str, Any],
    receive: Receive,
    settings: Settings,
    left: float | None = None,
) -> bytes:
    """The whole body, within `left` seconds if that is less than the settings allow.

    Raises HttpError: 415 for a content type or encoding that isn't understood, 413 for too much,
    408 for too slow, 400 for compressed data that isn't; and GoneError.
    """
    encoding = _check_headers(scope)
    limit = settings.body_limit
    declared = header(scope, b"content-length")
    length = int(declared) if declared is not None and declared.isdigit() else 0
    if length > LINGER * limit:
        raise _too_large(limit)
    chunks: list[bytes] = []
    size = 0
    left = settings.body_timeout if left is None else left
    hurry = left < settings.body_timeout
    try:
        async with asyncio.timeout(max(left, _GRACE) if hurry else settings.body_timeout):
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise GoneError
                chunk = message.get("body", b"")
                size += len(chunk)
                if size > LINGER * limit:
                    raise _too_large(limit)
                if size <= limit:
                    chunks.append(chunk)
                else:
                    chunks.clear()
                if not message.get("more_body", False):
                    break
    except TimeoutError:
        if hurry:
            raise HttpError(
                408,
                "deadline_exceeded",
                "The deadline passed before the body was there.",
                headers=CLOSE,
            ) from None
        raise HttpError(
            408,
            "request_timeout",
            f"The body didn't arrive within {settings.body_timeout:g} s.",
            headers=CLOSE,
        ) from None
    if size > limit:
        raise _too_large(limit, CLOSE)
    body = b"".join(chunks)
    return body if encoding is None else _decompress(body, encoding, limit)


def _check_headers(scope: MutableMapping[str, Any]) -> str | None:
    """The content encoding, or None for plain data."""
    kind = header(scope, b"content-type")
    media = (kind or b"application/json").split(b";")[0].strip().lower()
    if media == b"multipart/form-data":
        raise _unsupported("Assets (multipart/form-data) can't be read by a text model.")
    if media != b"application/json" and not (
        media.startswith(b"application/") and media.endswith(b"+json")
    ):
        raise _unsupported('Send JSON, with "Content-Type: application/json".')
    encoding = (header(scope, b"content-encoding") or b"identity").strip().lower()
    if encoding == b"identity":
        return None
    if encoding in (b"gzip", b"zstd"):
        if encoding == b"zstd" and _zstd() is None:
            raise _unsupported(
                "Bodies compressed by zstd can't be read here: the server needs Python 3.14 or "
                "backports.zstd. Send the body as it is (typesafe-sdk: compression=False)."
            )
        return encoding.decode()
    raise _unsupported("The content encodings understood are gzip and zstd.")


def _decompress(body: bytes, encoding: str, limit: int) -> bytes:
    """At most `limit` bytes are made, however much is packed into `body`."""
    wrong = HttpError(400, "api_usage_error", f"The body is not {encoding}, as its header says.")
    made: list[bytes] = []
    try:
        if encoding == "gzip":
            made, finished = _inflate(memoryview(body), limit)
        else:
            unpack = _zstd().ZstdDecompressor()
            made.append(unpack.decompress(body, limit + 1))
            finished = unpack.eof and not unpack.unused_data
    except Exception as error:  # each library has an error of its own
        raise wrong from error
    if _total(made) > limit:
        raise _too_large(limit)
    if not finished:
        raise wrong
    return b"".join(made)


def _inflate(body: memoryview, limit: int) -> tuple[list[bytes], bool]:
    """(what was made of the members in `body`, one after the other as in RFC 1952; whether the
    last of them ended). It stops where more than `limit` bytes were made. Every member is fed a
    window at a time, so that many small ones don't copy what follows them again and again."""
    made: list[bytes] = []
    size = at = members = 0
    finished = False
    while at < len(body) and size <= limit:
        members += 1
        if members > MEMBERS:
            raise ValueError(f"more than {MEMBERS} members")
        inflate = zlib.decompressobj(16 + zlib.MAX_WBITS)
        while at < len(body) and size <= limit and not inflate.eof:
            window = body[at : at + _WINDOW]
            made.append(inflate.decompress(window, limit + 1 - size))
            size += len(made[-1])
            at += len(window) - len(inflate.unconsumed_tail) - len(inflate.unused_data)
        finished = inflate.eof
    return made, finished


def _zstd() -> Any:
    """The standard library's module (Python 3.14) or its backport, None without either."""
    for name in ("compression.zstd", "backports.zstd"):
        try:
            return importlib.import_module(name)
        except ImportError:
            continue
    return None


def _total(chunks: Iterable[bytes]) -> int:
    return sum(map(len, chunks))


def _too_large(limit: int, headers: dict[str, str] | None = None) -> HttpError:
    return HttpError(
        413,
        "request_too_large",
        f"The body is larger than {limit} bytes, the most this server takes.",
        headers=CLOSE if headers is None else headers,
    )


def _unsupported(message: str) -> HttpError:
    return HttpError(415, "unsupported_media_type", message, headers=CLOSE)
