"""Errors of exported models that are loaded; those of exporting are in `readoff.engine.errors`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from readoff.engine.errors import ExportError


class PackError(ExportError):
    """A deployment pack can't be read or run: damaged, newer, incomplete, or its runtime is missing
    or too old."""


class ParityError(ExportError):
    """An exported graph doesn't decide like the model it was made from. `table`: the check's rows,
    as in pack.json."""

    def __init__(self, message: str, table: Sequence[Mapping[str, Any]] = ()) -> None:
        super().__init__(message)
        self.table = tuple(table)
