"""What commands print: results on stdout, progress on stderr."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


def print_json(document: Any) -> None:
    """One readable JSON document on stdout; never NaN or Infinity.

    Text stays as it is where stdout can carry it, and is escaped where it can't (a lone
    surrogate, or a terminal that isn't UTF-8).
    """
    text = json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False)
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        text = json.dumps(document, indent=2, allow_nan=False)
    print(text)


def note(message: str) -> None:
    """One line of progress on stderr."""
    print(message, file=sys.stderr, flush=True)


@contextmanager
def progress(what: str) -> Iterator[None]:
    """Say on stderr what is being done, and how long it took."""
    note(f"{what} …")
    started = time.perf_counter()
    yield
    note(f"{what}: done in {time.perf_counter() - started:.1f} s")
