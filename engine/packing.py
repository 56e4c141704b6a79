"""From segments that have their slots to the plain tensors of a `Batch`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from readoff.engine.batch import Batch, Runs

Spans = Sequence[tuple[int, int]]


@dataclass(frozen=True)
class Placed:
    """A segment with its slots.

    `ids` are its tokens at the positions from `first` on; their keys go to the slots from `kv` on,
    which follow `own` slots with earlier keys of the same line. `chain`: the spans (slot, length)
    of its ancestors. `parent`: the segment of the same batch that it continues, by its number, or
    -1. `parent_state` and `state_out` as in `Batch`.
    """

    ids: Sequence[int]
    first: int
    kv: int
    chain: Spans = ()
    own: int = 0
    parent: int = -1
    parent_state: int = 0
    state_out: int = -1


@dataclass(frozen=True)
class Reading:
    """Labels to read after token `offset` of the segment number `segment`."""

    segment: int
    offset: int
    labels: Sequence[int]
    prior: Sequence[float]
    temperature: float = 1.0


def pack(
    segments: Sequence[Placed], readings: Sequence[Reading], kv_slots: int, state_slots: int
) -> Batch:
    """All segments in one batch, in this order: parents before children."""
    lengths = [len(s.ids) for s in segments]
    starts, at = [], 0
    for length in lengths:
        starts.append(at)
        at += length
    depths, waves = _depths_and_waves([s.parent for s in segments])
    together = list(zip(segments, lengths, strict=True))
    positions = [p for s, n in together for p in range(s.first, s.first + n)]
    slots = [k for s, n in together for k in range(s.kv, s.kv + n)]
    counts = [len(r.labels) for r in readings]
    read = [segments[r.segment] for r in readings]
    seg_start, seg_length = _ints(starts), _ints(lengths)
    return Batch(
        tokens=_ints([t for s in segments for t in s.ids]),
        positions=_ints(positions),
        slots=_ints(slots),
        seg_start=seg_start,
        seg_length=seg_length,
        seg_depth=_ints(depths),
        parent_state=_ints([s.parent_state for s in segments]),
        state_out=_ints([s.state_out for s in segments]),
        seg_parent=_ints([s.parent for s in segments]),
        seg_wave=_ints(waves),
        runs=_runs(
            seg_start,
            seg_length,
            _ints([s.kv - s.own for s in segments]),
            _ints([s.own + n for s, n in together]),
            [s.chain for s in segments],
        ),
        read_runs=_runs(
            torch.arange(len(readings)),
            torch.ones(len(readings), dtype=torch.long),
            _ints([s.kv - s.own for s in read]),
            _ints([s.own + r.offset + 1 for s, r in zip(read, readings, strict=True)]),
            [s.chain for s in read],
        ),
        rows=_ints([starts[r.segment] + r.offset for r in readings]),
        label_offsets=_ints([0, *counts]).cumsum(0),
        label_ids=_ints([i for r in readings for i in r.labels]),
        prior=torch.tensor([p for r in readings for p in r.prior], dtype=torch.float32),
        temperature=torch.tensor([r.temperature for r in readings], dtype=torch.float32),
        kv_slots=kv_slots,
        state_slots=state_slots,
        waves=max(waves, default=-1) + 1,
    )


def _depths_and_waves(parents: Sequence[int]) -> tuple[list[int], list[int]]:
    """`Batch.seg_depth` and `Batch.seg_wave`."""
    depths: list[int] = []
    waves: list[int] = []
    for s, p in enumerate(parents):
        assert p < s, "parents come before children"
        depths.append(0 if p < 0 else depths[p] + 1)
        waves.append(0 if p < 0 else waves[p] + (p != s - 1))
    return depths, waves


def _runs(
    q_start: torch.Tensor,
    q_length: torch.Tensor,
    kv_start: torch.Tensor,
    kv_length: torch.Tensor,
    chains: Sequence[Spans],
) -> Runs:
    offsets = _ints([0, *(len(chain) for chain in chains)]).cumsum(0)
    flat = _ints([number for chain in chains for span in chain for number in span]).view(-1, 2)
    return Runs(q_start, q_length, kv_start, kv_length, offsets, flat)


def _ints(values: Sequence[int]) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.long)
