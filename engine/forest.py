"""`Forest`: prompts as chains of segments, equal beginnings held once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from readoff.engine.batch import Batch
from readoff.engine.packing import Placed, Reading, pack


@dataclass(frozen=True)
class Segment:
    """A run of new tokens with one parent. `first` is the position of its first token."""

    ids: tuple[int, ...]
    parent: int
    depth: int
    first: int

    def __post_init__(self) -> None:
        assert self.ids, "a segment holds at least one token"


@dataclass(frozen=True)
class Read:
    """One question's readout: after token `offset` of `segment`, over `labels`."""

    segment: int
    offset: int
    labels: tuple[int, ...]
    prior: tuple[float, ...]
    temperature: float

    def __post_init__(self) -> None:
        assert len(self.labels) == len(self.prior) >= 1


class Forest:
    """Segments in the order they were added, parents before children, and the reads from them."""

    def __init__(self) -> None:
        self.segments: list[Segment] = []
        self.reads: list[Read] = []
        self._known: dict[tuple[int, tuple[int, ...]], int] = {}

    @property
    def tokens(self) -> int:
        """Tokens of all segments: what a cold forward computes."""
        return sum(len(s.ids) for s in self.segments)

    def add(self, pieces: Sequence[tuple[int, ...]]) -> int:
        """Add a chain of pieces below the root; a known beginning is shared. Returns the leaf."""
        node = -1
        for ids in pieces:
            key = (node, ids)
            if key not in self._known:
                parent = self.segments[node] if node >= 0 else None
                depth = parent.depth + 1 if parent else 0
                first = parent.first + len(parent.ids) if parent else 0
                self._known[key] = len(self.segments)
                self.segments.append(Segment(ids, node, depth, first))
            node = self._known[key]
        return node

    def path(self, segment: int) -> list[int]:
        """A segment and its ancestors, itself first."""
        path = []
        while segment >= 0:
            path.append(segment)
            segment = self.segments[segment].parent
        return path

    def read(
        self,
        segment: int,
        labels: Sequence[int],
        prior: Sequence[float] | None = None,
        temperature: float = 1.0,
        offset: int = -1,
    ) -> None:
        """Read `labels` after a token of `segment`, by default its last."""
        length = len(self.segments[segment].ids)
        offset = offset % length
        prior = tuple(prior) if prior is not None else (0.0,) * len(labels)
        self.reads.append(Read(segment, offset, tuple(labels), prior, temperature))

    def batch(self) -> Batch:
        """The plain tensors of a cold pass: every segment is new, token t sits in slot t."""
        order = self._depth_first()
        start, at = [0] * len(self.segments), 0
        for s in order:
            start[s] = at
            at += len(self.segments[s].ids)
        parents = {s.parent for s in self.segments}
        slot = {s: n for n, s in enumerate((s for s in order if s in parents), start=1)}
        place = {s: n for n, s in enumerate(order)}
        placed = [
            Placed(
                self.segments[s].ids,
                self.segments[s].first,
                start[s],
                self._chain(s, start),
                parent=place.get(self.segments[s].parent, -1),
                parent_state=slot.get(self.segments[s].parent, 0),
                state_out=slot.get(s, -1),
            )
            for s in order
        ]
        readings = [
            Reading(place[r.segment], r.offset, r.labels, r.prior, r.temperature)
            for r in self.reads
        ]
        return pack(placed, readings, kv_slots=at, state_slots=len(slot) + 1)

    def _depth_first(self) -> list[int]:
        """Parents directly before their first child, so that chains are few, long spans."""
        children: dict[int, list[int]] = {}
        for s, segment in enumerate(self.segments):
            children.setdefault(segment.parent, []).append(s)
        order, stack = [], children.get(-1, [])[::-1]
        while stack:
            s = stack.pop()
            order.append(s)
            stack += children.get(s, [])[::-1]
        return order

    def _chain(self, segment: int, start: list[int]) -> list[tuple[int, int]]:
        """The spans (slot, length) of a segment's ancestors, root first, neighbours merged."""
        path = self.path(segment)[:0:-1]
        spans: list[tuple[int, int]] = []
        for slot, length in ((start[s], len(self.segments[s].ids)) for s in path):
            if spans and sum(spans[-1]) == slot:
                spans[-1] = (spans[-1][0], spans[-1][1] + length)
            else:
                spans.append((slot, length))
        return spans
