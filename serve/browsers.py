"""Pages of other sites, which must not use a server that a browser can reach and they can't."""

from __future__ import annotations

import ipaddress
from collections.abc import MutableMapping
from typing import Any
from urllib.parse import urlsplit

from readoff.serve.body import header
from readoff.serve.errors import HttpError


def check_browser(scope: MutableMapping[str, Any]) -> None:
    """Raise HttpError 403 for what a page of another site sends to this machine's own server.

    Where no key is asked for and only this machine is let in, being here is the permission, and
    every page that a browser here shows has that too: by a request across sites, or under a name
    of its own that it lets mean this machine (DNS rebinding). Browsers say where a request comes
    from (Sec-Fetch-Site, Origin); programs don't, and aren't looked at.
    """
    if not _is_here((scope.get("server") or ("",))[0]):
        return
    origin = header(scope, b"origin")
    crossed = header(scope, b"sec-fetch-site") in (b"cross-site", b"same-site")
    if crossed or (origin is not None and not (_names_us(origin) and _host_names_us(scope))):
        raise HttpError(
            403,
            "forbidden",
            "Pages of other sites can't use a server that is for this machine alone. "
            "Give it keys (--api-key-file), or ask through a server of your own.",
        )


def _host_names_us(scope: MutableMapping[str, Any]) -> bool:
    return _names_us(b"http://" + (header(scope, b"host") or b""))


def _names_us(url: bytes) -> bool:
    try:
        name = urlsplit(url.decode("ascii", "replace")).hostname
    except ValueError:
        return False
    return name is not None and (name == "localhost" or _is_here(name))


def _is_here(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False
