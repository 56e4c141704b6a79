"""`Settings`: what a server is told, apart from its models."""

from __future__ import annotations

import math
from dataclasses import dataclass

from readoff.serve.errors import StartError

PUBLIC_ALIAS = "jev-latest"
"""The model name that clients of the ecosystem send by default."""


@dataclass(frozen=True)
class Settings:
    """Limits and habits of a server; the defaults suit a service behind a proxy or on loopback.

    max_queue: requests of one model that may wait or run; the next gets 429.
    deadline_ms: how long a request may take if it doesn't say (`x-readoff-deadline-ms`); None is
        for ever.
    body_limit: bytes of a request's body, after decompression too; more is 413.
    max_questions: questions of one request; more is 422.
    header_timeout, body_timeout: seconds within which a request's head and its body must have
        arrived in full. keep_alive: seconds that an idle connection stays open.
    max_connections: open at once; the next is told 503 and closed.
    drain_seconds: how long the server goes on accepting, not ready, once it was told to stop.
    drain_limit: seconds after which running requests are given up.
    legal_mass_every: of so many requests one measures the legal mass for the metrics; 0: none.
    log_text: the log holds what users sent.
    """

    max_queue: int = 256
    deadline_ms: float | None = None
    body_limit: int = 4 << 20
    max_questions: int = 1024
    header_timeout: float = 10.0
    body_timeout: float = 20.0
    keep_alive: float = 30.0
    max_connections: int = 1024
    drain_seconds: float = 0.5
    drain_limit: float = 60.0
    legal_mass_every: int = 100
    log_text: bool = False

    def __post_init__(self) -> None:
        for name in ("max_queue", "body_limit", "max_questions", "max_connections"):
            _check(name, getattr(self, name), above=0)
        for name in ("header_timeout", "body_timeout", "keep_alive", "drain_limit"):
            _check(name, getattr(self, name), above=0)
        for name in ("drain_seconds", "legal_mass_every"):
            _check(name, getattr(self, name), above=-1)
        if self.deadline_ms is not None:
            _check("deadline_ms", self.deadline_ms, above=0)


def _check(name: str, value: float, *, above: int) -> None:
    if isinstance(value, bool) or not math.isfinite(value) or value <= above:
        least = "0 or more" if above < 0 else "more than 0"
        raise StartError(f"{name} must be {least}, not {value!r}.")
