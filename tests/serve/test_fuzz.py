"""Two thousand malformed bodies: each gets a 4xx with a body of the contract's shape."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from .rig import ASK, BODY, DECIDE, Client, Held, client_of

COUNT = 1000
DECISION: dict[str, Any] = {
    "model": "tiny",
    "input": [{"role": "user", "content": [{"type": "input_text", "text": "I paid twice."}]}],
    "questions": [
        {"type": "predicate", "name": "urgent", "instructions": "Is it urgent?"},
        {
            "type": "choice",
            "instructions": "Which?",
            "choices": [{"value": True}, {"value": "true", "description": "text"}],
        },
        {"type": "score", "instructions": "How?", "levels": [{"label": "a"}, {"label": "b"}]},
    ],
}
ODD: list[Any] = [
    None,
    True,
    0,
    -1.5,
    1e308,
    "",
    " ",
    "\u0000",
    [],
    {},
    [[]],
    {"": None},
    [None],
    "noul",
    10**400,
    "a" * 300,
]
BYTES = [b"\xff", b"\xed\xa0\x80", b"\x00", b'"', b"{", b"]", b",", b":", b"NaN", b"\\ud800", b"//"]


def test_the_originals_are_legal() -> None:
    engine = Held()
    engine.open.set()
    with client_of(engine) as client:
        assert client.post(ASK, json=BODY).status_code == 200
        assert client.post(DECIDE, json=DECISION).status_code == 200


@pytest.mark.parametrize(("path", "original"), [(ASK, BODY), (DECIDE, DECISION)])
def test_malformed_bodies_get_4xx_only(path: str, original: dict[str, Any]) -> None:
    """Half are broken as JSON, half are JSON that is changed in one to three places. What happens
    to be legal all the same may be answered, and isn't counted."""
    draw = random.Random(9)
    engine = Held()
    engine.open.set()
    refused = 0
    with client_of(engine) as client:
        while refused < COUNT:
            body = broken(draw, original) if draw.random() < 0.5 else changed(draw, original)
            refused += ask(client, path, body)
    assert engine.asked < COUNT


def ask(client: Client, path: str, body: bytes) -> bool:
    """Whether it was refused; fails for anything but an answer or a refusal in its shape."""
    response = client.post(path, content=body, headers={"content-type": "application/json"})
    if response.status_code == 200:
        return False
    content = response.json()
    assert 400 <= response.status_code < 500, body
    if path == DECIDE:
        assert response.status_code == 400, body
        assert content["error"]["type"] == "invalid_request_error"
        assert content["error"]["message"]
    elif response.status_code == 400:
        assert content["detail"]["error_type"] == "api_usage_error"
    else:
        assert response.status_code == 422, body
        assert content["detail"][0]["loc"][0] == "body"
        assert content["detail"][0]["msg"]
    return True


def broken(draw: random.Random, original: dict[str, Any]) -> bytes:
    """Bytes cut, put in, swapped or taken out."""
    data = bytearray(json.dumps(original, ensure_ascii=False).encode())
    for _ in range(draw.randint(1, 3)):
        at = draw.randrange(len(data))
        kind = draw.randrange(4)
        if kind == 0:
            del data[at:]
            data += b" " * (not data)
        elif kind == 1:
            data[at:at] = draw.choice(BYTES)
        elif kind == 2:
            data[at] = draw.randrange(256)
        else:
            del data[at : at + draw.randint(1, 9)]
            data += b" " * (not data)
    return bytes(data)


def changed(draw: random.Random, original: dict[str, Any]) -> bytes:
    """Values replaced by odd ones, taken out, or put where another was."""
    content = json.loads(json.dumps(original))
    for _ in range(draw.randint(1, 3)):
        places = list(_places(content))
        if not places:
            break
        holder, key = draw.choice(places)
        kind = draw.randrange(3)
        if kind == 0:
            holder[key] = json.loads(json.dumps(draw.choice(ODD)))
        elif kind == 1:
            del holder[key]
        else:
            other, name = draw.choice(places)
            holder[key] = json.loads(json.dumps(other[name]))
    return json.dumps(content).encode()


def _places(value: Any) -> list[tuple[Any, Any]]:
    found: list[tuple[Any, Any]] = []
    keys = list(value) if isinstance(value, dict) else range(len(value))
    for key in keys:
        found.append((value, key))
        if isinstance(value[key], dict | list):
            found += _places(value[key])
    return found
