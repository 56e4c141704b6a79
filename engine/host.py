"""The machine that a model runs on, as far as it can be told without torch."""

from __future__ import annotations

import os
from pathlib import Path

from readoff.engine.errors import ReadoffError


def check_threads(count: int | None) -> None:
    """Raise ReadoffError unless `count` is a number of threads that can be started, or None: a
    process that starts far more than there are processors is ended by OpenMP without a word."""
    if count is None:
        return
    if type(count) is not int or count < 1:
        raise ReadoffError(f"threads must be a positive whole number, not {count!r}.")
    processors = os.cpu_count() or 1
    most = max(64, 4 * processors)
    if count > most:
        raise ReadoffError(
            f"threads={count} is more than this machine's {processors} processors can use; give at "
            f"most {most}."
        )


def free_host_memory() -> int:
    """Bytes of memory that Linux says are available; elsewhere a guess."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    except OSError:
        return 4 << 30
    found = [line.split()[1] for line in lines if line.startswith("MemAvailable:")]
    return int(found[0]) << 10 if found else 4 << 30
