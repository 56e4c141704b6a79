"""The machine that a model runs on, as far as it can be told without torch."""

from __future__ import annotations

from pathlib import Path

from readoff.engine.errors import ReadoffError


def check_threads(count: int | None) -> None:
    """Raise ReadoffError unless `count` is a number of threads, or None."""
    if count is not None and (type(count) is not int or count < 1):
        raise ReadoffError(f"threads must be a positive whole number, not {count!r}.")


def free_host_memory() -> int:
    """Bytes of memory that Linux says are available; elsewhere a guess."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    except OSError:
        return 4 << 30
    found = [line.split()[1] for line in lines if line.startswith("MemAvailable:")]
    return int(found[0]) << 10 if found else 4 << 30
