"""`Serving`: how an engine spends memory and time between callers."""

from __future__ import annotations

from dataclasses import dataclass

from readoff.engine.errors import ReadoffError


@dataclass(frozen=True)
class Serving:
    """Options of an engine; the defaults suit a service.

    cache_bytes: what cached prefixes may occupy; None is an eighth of the memory that is free, at
        most 4 GiB; 0 keeps nothing between passes.
    max_queue: requests that may wait. max_wait_ms: how long the first of them waits for company;
        0 runs whatever has arrived.
    step_tokens: new tokens of one pass, about; None is 1024 on a CPU with a cache, else 8192.
    snapshot_every: in hybrids, also keep snapshots inside long states, so many tokens apart (a
        multiple of 64).
    deterministic: answers are equal bit for bit, alone or among others, cold or cached.
    """

    cache_bytes: int | None = None
    max_queue: int = 1024
    max_wait_ms: float = 0.0
    step_tokens: int | None = None
    snapshot_every: int | None = None
    deterministic: bool = False

    def __post_init__(self) -> None:
        for name, least in (("cache_bytes", 0), ("max_queue", 1), ("step_tokens", 64)):
            value = getattr(self, name)
            if value is None and name != "max_queue":
                continue
            if type(value) is not int or value < least:
                raise ReadoffError(f"{name} must be a whole number from {least} on, not {value!r}.")
        wait = self.max_wait_ms
        if isinstance(wait, bool) or not isinstance(wait, int | float) or not 0 <= wait < 1e6:
            raise ReadoffError(f"max_wait_ms must be a number from 0 on, not {wait!r}.")
        every = self.snapshot_every
        if every is not None and (type(every) is not int or every < 64 or every % 64):
            raise ReadoffError(f"snapshot_every must be a multiple of 64, not {every!r}.")
        if type(self.deterministic) is not bool:
            raise ReadoffError(f"deterministic must be True or False, not {self.deterministic!r}.")
