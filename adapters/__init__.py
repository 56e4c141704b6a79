"""The adapters that readoff brings along: a folder each, with its model card. No other code."""

from __future__ import annotations

from pathlib import Path

DEMO = Path(__file__).parent / "demo"
"""Of the demonstration model, trained by `readoff train` on public data."""
