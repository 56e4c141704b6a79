"""What can be wrong with the sources of training data, or with what is made from them."""

from __future__ import annotations

from readoff.engine.errors import ReadoffError


class DataError(ReadoffError, ValueError):
    """A source is missing, malformed or too small, or the data set can't be written."""
