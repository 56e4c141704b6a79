"""What a page of another site may do with a server that is for this machine alone: nothing."""

from __future__ import annotations

from collections.abc import Mapping

import httpx
import pytest

from readoff.serve.browsers import check_browser
from readoff.serve.errors import HttpError

from .rig import ASK, BODY, Held, running

HERE = {"host": "127.0.0.1:8000"}


def answered(headers: Mapping[str, str], address: str = "127.0.0.1") -> bool:
    scope = {
        "server": (address, 8000),
        "headers": [(key.encode(), value.encode()) for key, value in headers.items()],
    }
    try:
        check_browser(scope)
    except HttpError as error:
        return error.status != 403
    return True


@pytest.mark.parametrize(
    ("headers", "allowed"),
    [
        (HERE, True),  # a program
        ({"host": "models.internal"}, True),  # a program, or a proxy that keeps the name
        (HERE | {"sec-fetch-site": "same-origin", "origin": "http://127.0.0.1:8000"}, True),
        ({"host": "localhost:8000", "origin": "http://localhost:8000"}, True),
        ({"host": "[::1]:8000", "origin": "http://[::1]:8000"}, True),
        (HERE | {"sec-fetch-site": "none"}, True),  # typed into the address bar
        (HERE | {"sec-fetch-site": "cross-site"}, False),
        (HERE | {"sec-fetch-site": "same-site"}, False),
        (HERE | {"origin": "https://evil.example"}, False),
        (HERE | {"origin": "null"}, False),
        (HERE | {"origin": "http://[broken"}, False),
        ({"host": "evil.example", "origin": "http://evil.example"}, False),  # DNS rebinding
        ({"host": "127.0.0.1.evil.example", "origin": "http://127.0.0.1"}, False),
        ({"origin": "http://127.0.0.1"}, False),  # HTTP/1.0, without a host
    ],
)
def test_pages_of_other_sites_are_refused(headers: dict[str, str], allowed: bool) -> None:
    assert answered(headers) is allowed


def test_a_server_for_others_leaves_it_to_them() -> None:
    """It was opened to other machines without keys; its name may be any."""
    crossing = {"host": "models.internal", "origin": "https://tool.internal"}
    assert answered(crossing, "10.0.0.7")
    assert not answered(crossing, "::1")


def test_over_a_real_connection() -> None:
    engine = Held()
    engine.open.set()
    evil = {"origin": "https://evil.example"}
    with running(engine) as server:
        assert httpx.post(server.url + ASK, json=BODY).status_code == 200
        refused = httpx.post(server.url + ASK, json=BODY, headers=evil)
        assert refused.status_code == 403
        assert httpx.get(server.url + "/health/live", headers=evil).status_code == 200
    assert engine.asked == 1
    with running(engine, keys=["secret"]) as server:
        headers = evil | {"authorization": "Bearer secret"}
        assert httpx.post(server.url + ASK, json=BODY, headers=headers).status_code == 200
