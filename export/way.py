"""`Way`: how far the shared pieces of a prompt are computed, from what was cached to their end."""

from __future__ import annotations

from collections.abc import Sequence

from readoff.engine.line import Ids
from readoff.export.past import Past, joined

GRID = 64
"""Runs that don't reach their goal end on multiples of the delta rule's chunk; ends of pieces that
lie closer together than that share a past."""


class Way:
    """`border` is the past of the first `done` of `pieces`; `parts` follow it, each the next.

    A past is kept at the *stops*: after the preamble, which is the first piece, at the end, and
    between them at ends of pieces, `GRID` tokens apart at least.
    """

    def __init__(self, pieces: tuple[Ids, ...], border: Past, done: int) -> None:
        self.pieces, self.border, self.done = pieces, border, done
        self.parts: list[Past] = []
        self._stops = _stops(pieces, done)

    @property
    def end(self) -> Past:
        """What is computed."""
        return self.parts[-1] if self.parts else self.border

    @property
    def is_over(self) -> bool:
        """Whether that is everything, and kept."""
        return not self._stops

    def ahead(self, stop_only: bool = False) -> Ids:
        """The ids that aren't computed yet: all, or those up to the next stop."""
        until = self._stops[0] if stop_only else len(self.pieces)
        ids = tuple(index for piece in self.pieces[self.done : until] for index in piece)
        return ids[self.end.length - self.border.length :]

    def room(self) -> int:
        """Tokens from the end to the next stop."""
        sizes = map(len, self.pieces[self.done : self._stops[0]])
        return sum(sizes) - (self.end.length - self.border.length)

    def add(self, part: Past) -> None:
        """Go on by a part that doesn't pass the next stop."""
        assert part.base is self.end
        assert len(part.ids) <= self.room()
        if self.parts:  # of parts only the last one's states are needed, and those are large
            self.parts[-1] = self.parts[-1].bare()
            part = part.after(self.parts[-1])
        self.parts.append(part)

    def settle(self) -> Past | None:
        """If a stop is reached: its past, which is the new border; else None."""
        if self.is_over or self.room():
            return None
        self.border, self.parts = joined(self.parts), []
        self.done = self._stops.pop(0)
        return self.border


def _stops(pieces: Sequence[Ids], done: int) -> list[int]:
    """The numbers of pieces after which a past is kept, beyond the first `done`."""
    found, size = [], 0
    for number in range(done + 1, len(pieces) + 1):
        size += len(pieces[number - 1])
        if number in (1, len(pieces)) or size >= GRID:
            found.append(number)
            size = 0
    return found
