"""What an error repeats of what was sent: its beginning."""

from __future__ import annotations

MOST = 200
"""Characters; a request may hold names of megabytes."""


def echo(text: str) -> str:
    """`text`, cut with an ellipsis where it is long."""
    return text if len(text) <= MOST else f"{text[:MOST]}…"
