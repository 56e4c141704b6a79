"""`Continuation`: new tokens that go on from what kept pools already hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from readoff.engine import packing
from readoff.engine.batch import Batch
from readoff.engine.packing import Placed, pack

Span = tuple[int, int]


@dataclass(frozen=True)
class Reading:
    """Labels to read after token `offset` of the new ones."""

    offset: int
    labels: Sequence[int]
    prior: Sequence[float] | None = None
    temperature: float = 1.0


@dataclass(frozen=True)
class Continuation:
    """A segment by hand.

    `ids` are the new tokens at `position` and on. Their keys go to the slots from `slot` on, which
    follow `own` slots with earlier keys of the same line; `chain` holds the spans (slot, length) of
    its ancestors. `parent_state` and `state_out` as in `Batch`; what goes on from another segment
    of the same batch comes after it.
    """

    ids: Sequence[int]
    position: int
    slot: int
    own: int = 0
    chain: tuple[Span, ...] = ()
    parent_state: int = 0
    state_out: int = -1
    readings: Sequence[Reading] = ()


def batch_of(parts: Sequence[Continuation], kv_slots: int, state_slots: int) -> Batch:
    """All of `parts` in one pass, in this order. Readings come out in the same order."""
    writers = {part.state_out: n for n, part in enumerate(parts) if part.state_out > 0}
    placed = [
        Placed(
            part.ids,
            part.position,
            part.slot,
            part.chain,
            part.own,
            _writer(n, part, writers),
            part.parent_state,
            part.state_out,
        )
        for n, part in enumerate(parts)
    ]
    readings = [
        packing.Reading(n, r.offset, r.labels, r.prior or [0.0] * len(r.labels), r.temperature)
        for n, part in enumerate(parts)
        for r in part.readings
    ]
    return pack(placed, readings, kv_slots, state_slots)


def _writer(number: int, part: Continuation, writers: Mapping[int, int]) -> int:
    """The segment of this batch that writes what `part` starts from, or -1."""
    found = writers.get(part.parent_state, -1)
    return found if found < number else -1
