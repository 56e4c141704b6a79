"""`Record`: what is known of one request on its way: for the log, the metrics and the traces."""

from __future__ import annotations

import os
import time
from collections.abc import MutableMapping
from dataclasses import dataclass, field
from typing import Any, cast

KEY = "readoff.record"
ID_HEADER = "x-typesafe-request-id"
GONE = 499
"""The status, never sent, of a request whose client went away."""


def new_id() -> str:
    """A name for a request."""
    return f"req_{os.urandom(12).hex()}"


@dataclass(eq=False)
class Record:
    """One request. Whoever learns something of it fills in a field; `stages` in seconds."""

    id: str = field(default_factory=new_id)
    started: float = field(default_factory=time.perf_counter)
    clock: int = field(default_factory=time.time_ns)
    model: str | None = None
    questions: int | None = None
    input_tokens: int | None = None
    cached_tokens: int | None = None
    error: str | None = None
    raised: list[str] | None = None
    gone: bool = False
    stages: dict[str, float] = field(default_factory=dict)
    text: dict[str, Any] | None = None

    def lap(self, stage: str, since: float) -> float:
        """The stage that began at `since` ended; returns now."""
        now = time.perf_counter()
        self.stages[stage] = now - since
        return now


def record_of(scope: MutableMapping[str, Any]) -> Record:
    """The record that travels with a request."""
    return cast(Record, scope[KEY])
