"""Asking a server as fast as it answers, over plain sockets, and comparing what comes back."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from readoff.engine import wire
from readoff.engine.questions import Choice, Noul, Question, Score

ROUTE = "/v1/systemone"


@dataclass(frozen=True)
class Ask:
    """A request with a codeword of its own, and the answers that the engine itself gives."""

    state: str
    questions: Mapping[str, Question]
    body: bytes
    expected: Mapping[str, Any] = field(default_factory=dict)


@dataclass
class Outcome:
    """What came back: seconds of each request that was answered, and the faults."""

    seconds: list[float] = field(default_factory=list)
    statuses: Counter[str] = field(default_factory=Counter)
    crossed: int = 0
    lost: int = 0
    refused: int = 0
    faults: list[str] = field(default_factory=list)


def make_asks(count: int, *, words: int = 12) -> list[Ask]:
    """`count` requests, no two with the same state, question id or option."""
    made = []
    for number in range(count):
        code = f"code{number:04d}"
        filler = " ".join(f"{code[:2]}{(number * 31 + k * 17) % 997}" for k in range(words))
        state = f"{code}: {filler}."
        questions: dict[str, Question] = {
            f"team {code}": Choice(criteria={code: "this one", "other": None}),
            f"level {code}": Score(instructions=code, criteria=["low", "middle", "high"]),
            f"true {code}": Noul(instructions=f"Is {code} urgent?"),
        }
        content = {
            "state": state,
            "questions": {
                name: {"type": q.type, "instructions": q.instructions, "criteria": q.criteria}
                for name, q in questions.items()
            },
        }
        made.append(Ask(state, questions, wire.dumps(content).encode()))
    return made


class Connection:
    """One connection, kept alive."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._host, self._port = parts.hostname or "127.0.0.1", parts.port or 80
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def post(self, body: bytes) -> tuple[int, bytes]:
        """The status and body of the answer. Raises OSError and EOFError."""
        if self._writer is None:
            self._reader, self._writer = await asyncio.open_connection(self._host, self._port)
        assert self._reader is not None
        head = (
            f"POST {ROUTE} HTTP/1.1\r\nhost: load\r\ncontent-type: application/json\r\n"
            f"content-length: {len(body)}\r\n\r\n"
        )
        self._writer.write(head.encode() + body)
        lines = (await self._reader.readuntil(b"\r\n\r\n")).lower().split(b"\r\n")
        headers = dict(line.split(b": ", 1) for line in lines[1:] if line)
        content = await self._reader.readexactly(int(headers[b"content-length"]))
        if headers.get(b"connection") == b"close":
            self.close()
        return int(lines[0].split()[1]), content

    def close(self) -> None:
        """Hang up."""
        if self._writer is not None:
            self._writer.close()
        self._writer = None


async def one_by_one(url: str, asks: Sequence[Ask], rounds: int) -> list[float]:
    """Seconds of each request, over one connection."""
    connection, seconds = Connection(url), []
    for _ in range(rounds):
        for ask in asks:
            start = time.perf_counter()
            status, _ = await connection.post(ask.body)
            seconds.append(time.perf_counter() - start)
            assert status == 200
    connection.close()
    return seconds


async def many(
    url: str, asks: Sequence[Ask], *, connections: int, seconds: float, tolerance: float
) -> Outcome:
    """Every connection asks one request after another for `seconds`.

    An answer is crossed if its ids or its numbers are not those that the engine gave for the same
    request. One is lost if its request was sent and the connection ended without it; what couldn't
    connect is refused.
    """
    outcome = Outcome()
    end = time.perf_counter() + seconds

    async def work(first: int) -> None:
        connection, index = Connection(url), first
        while time.perf_counter() < end:
            ask = asks[index % len(asks)]
            index += connections
            start = time.perf_counter()
            try:
                status, content = await connection.post(ask.body)
            except ConnectionRefusedError:
                outcome.refused += 1
                return
            except (OSError, EOFError) as error:
                outcome.lost += 1
                outcome.faults.append(f"{type(error).__name__}: {error}")
                connection.close()
                continue
            outcome.statuses[str(status)] += 1
            if status == 200:
                outcome.seconds.append(time.perf_counter() - start)
                if not matches(json.loads(content)["answers"], ask.expected, tolerance):
                    outcome.crossed += 1
        connection.close()

    await asyncio.gather(*(work(number) for number in range(connections)))
    return outcome


def matches(found: Any, expected: Any, tolerance: float) -> bool:
    """Whether two JSON values are equal, numbers within `tolerance`."""
    if isinstance(expected, Mapping):
        return (
            isinstance(found, Mapping)
            and found.keys() == expected.keys()
            and all(matches(found[key], expected[key], tolerance) for key in expected)
        )
    if isinstance(expected, float):
        return isinstance(found, int | float) and abs(found - expected) <= tolerance
    return bool(found == expected)
