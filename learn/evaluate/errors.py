"""The error of an evaluation."""

from __future__ import annotations

from readoff.engine.errors import ReadoffError


class EvaluationError(ReadoffError):
    """What is to be evaluated can't be: its data, its adapter or the folder for the findings."""
