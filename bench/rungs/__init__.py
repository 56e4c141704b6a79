"""The rungs of the ladder: one way to answer a request each, from generated JSON to one pass."""

from __future__ import annotations

from readoff.bench.rungs.rung import Rung, UnavailableError
from readoff.bench.rungs.standard import RUNGS, standard_rungs

__all__ = ["RUNGS", "Rung", "UnavailableError", "standard_rungs"]
