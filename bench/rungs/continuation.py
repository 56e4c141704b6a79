"""`Continuation`: new tokens that go on from what kept pools already hold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from readoff.engine.batch import Batch, Runs

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
    its ancestors. `parent_state` and `state_out` as in `Batch`; `depth` orders segments of one
    batch that go on from one another.
    """

    ids: Sequence[int]
    position: int
    slot: int
    own: int = 0
    chain: tuple[Span, ...] = ()
    parent_state: int = 0
    state_out: int = -1
    depth: int = 0
    readings: Sequence[Reading] = ()


def batch_of(parts: Sequence[Continuation], kv_slots: int, state_slots: int) -> Batch:
    """All of `parts` in one pass, in this order. Readings come out in the same order."""
    lengths = [len(part.ids) for part in parts]
    starts = [sum(lengths[:n]) for n in range(len(parts))]
    reads = [
        (part, start, reading)
        for part, start in zip(parts, starts, strict=True)
        for reading in part.readings
    ]
    counts = [len(reading.labels) for _, _, reading in reads]
    prior = [
        p
        for _, _, reading in reads
        for p in (reading.prior if reading.prior is not None else [0.0] * len(reading.labels))
    ]
    return Batch(
        tokens=_ints([t for part in parts for t in part.ids]),
        positions=_ints([part.position + n for part in parts for n in range(len(part.ids))]),
        slots=_ints([part.slot + n for part in parts for n in range(len(part.ids))]),
        seg_start=_ints(starts),
        seg_length=_ints(lengths),
        seg_depth=_ints([part.depth for part in parts]),
        parent_state=_ints([part.parent_state for part in parts]),
        state_out=_ints([part.state_out for part in parts]),
        runs=_runs(
            [
                (start, length, part.own + length, part)
                for part, start, length in zip(parts, starts, lengths, strict=True)
            ]
        ),
        read_runs=_runs(
            [(n, 1, part.own + r.offset + 1, part) for n, (part, _, r) in enumerate(reads)]
        ),
        rows=_ints([start + reading.offset for _, start, reading in reads]),
        label_offsets=_ints([0, *counts]).cumsum(0),
        label_ids=_ints([t for _, _, reading in reads for t in reading.labels]),
        prior=torch.tensor(prior, dtype=torch.float32),
        temperature=torch.tensor([r.temperature for _, _, r in reads], dtype=torch.float32),
        kv_slots=kv_slots,
        state_slots=state_slots,
    )


def _runs(runs: Sequence[tuple[int, int, int, Continuation]]) -> Runs:
    """From (first query row, queries, own keys up to the last query, part)."""
    chains = [part.chain for _, _, _, part in runs]
    flat = [number for chain in chains for span in chain for number in span]
    return Runs(
        q_start=_ints([start for start, _, _, _ in runs]),
        q_length=_ints([length for _, length, _, _ in runs]),
        kv_start=_ints([part.slot - part.own for _, _, _, part in runs]),
        kv_length=_ints([keys for _, _, keys, _ in runs]),
        chain_offsets=_ints([0, *(len(chain) for chain in chains)]).cumsum(0),
        chain_spans=_ints(flat).view(-1, 2),
    )


def _ints(values: Sequence[int]) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.long)
