"""What can go wrong with an export itself. No torch in this file."""

from __future__ import annotations

from readoff.engine.errors import ReadoffError


class ExportError(ReadoffError):
    """An export can't be made or written: its target, its space on the disk, its base or format."""
