"""Errors of exported models that are loaded; those of exporting are in `readoff.engine.errors`."""

from __future__ import annotations

from readoff.engine.errors import ExportError


class PackError(ExportError):
    """A deployment pack can't be read or run: damaged, newer, incomplete, or its runtime is missing
    or too old."""


class ParityError(ExportError):
    """An exported graph doesn't decide like the model it was made from."""
