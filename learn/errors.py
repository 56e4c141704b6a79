"""The errors of training: what is wrong with the data, the settings, or an earlier run's state."""

from __future__ import annotations

from readoff.engine.errors import ReadoffError


class ExampleError(ReadoffError):
    """A training row can't be read, or isn't legal; the message names the file and the line."""


class TrainingError(ReadoffError):
    """Training can't begin, can't go on from an earlier state, or can't write what it made."""
