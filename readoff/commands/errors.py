"""Errors of the commands that aren't the library's."""

from __future__ import annotations

from readoff.engine.errors import ReadoffError


class BatchError(ReadoffError):
    """A batch can't go on: a file that can't be read or written, or one that answers something
    else; with --strict a request that is wrong."""
