"""`Line`: one prompt as a pass sees it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

Ids: TypeAlias = tuple[int, ...]


@dataclass(frozen=True)
class Line:
    """One prompt as a pass sees it: its shared pieces, the piece that is read at its end, and what
    is read there. Without a leaf the prompt only warms the cache."""

    pieces: tuple[Ids, ...]
    leaf: Ids = ()
    labels: tuple[int, ...] = ()
    prior: tuple[float, ...] = ()
    temperature: float = 1.0

    @property
    def shared(self) -> int:
        """Tokens of the shared pieces."""
        return sum(map(len, self.pieces))
