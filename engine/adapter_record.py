"""What an adapter's training.json says it was trained beside."""

from __future__ import annotations

import json
from pathlib import Path

from readoff.engine.lora import RECORD


def recorded(adapter: Path) -> tuple[str, str] | None:
    """The digests of the base and of the adapter itself, as `readoff train` recorded them in the
    folder; None where there is no such record."""
    try:
        found = json.loads((adapter / RECORD).read_bytes())
        base, own = found["facts"]["base"], found["digests"]["adapter"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
    return (base, own) if isinstance(base, str) and isinstance(own, str) else None
