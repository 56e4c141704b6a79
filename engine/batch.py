"""`Batch`: everything one forward pass needs, as plain tensors."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

import torch


@dataclass(frozen=True)
class Runs:
    """Query runs for the attention: which rows ask, and which keys they see.

    One entry a run: rows q_start .. q_start + q_length of the queries; own keys in the slots
    kv_start .. kv_start + kv_length, of which the queries are the last; ancestors as spans of
    slots in CSR form. All int64: [S], chain_offsets [S + 1], chain_spans [C, 2] (slot, length).
    """

    q_start: torch.Tensor
    q_length: torch.Tensor
    kv_start: torch.Tensor
    kv_length: torch.Tensor
    chain_offsets: torch.Tensor
    chain_spans: torch.Tensor

    def __post_init__(self) -> None:
        runs = len(self.q_start)
        assert len(self.q_length) == len(self.kv_start) == len(self.kv_length) == runs
        assert len(self.chain_offsets) == runs + 1
        assert self.chain_spans.shape[1:] == (2,)

    def to(self, device: torch.device) -> Runs:
        """The same on another device."""
        return Runs(*(getattr(self, f.name).to(device) for f in fields(self)))


@dataclass(frozen=True)
class Batch:
    """A forest of packed segments, and what is read from it. Filled by `Forest.batch`.

    Tokens, [T] int64: `tokens` (ids), `positions`, `slots` (where the KV pools take them).
    Segments, [S] int64: `seg_start` and `seg_length` in packed rows, `seg_depth` (0 at a root),
        `parent_state` (the state slot a segment starts from; 0 holds zeros), `state_out` (the
        slot its final state is written to, or -1), `seg_parent` (the segment of this batch that
        it continues, or -1), `seg_wave` (the turn in which it can be worked off: larger than its
        parent's, but the same for a segment that directly follows its parent). `waves`: turns.
    `runs`: the segments as the attention sees them. `read_runs`: the rows that are read, each a
        run of one query, for the last layer, which computes nothing else.
    Readout: `rows` [N] int64; `label_offsets` [N + 1] and `label_ids` [L] int64; `prior` [L] and
        `temperature` [N] fp32.
    `kv_slots` and `state_slots` are how many slots the pools must have.
    """

    tokens: torch.Tensor
    positions: torch.Tensor
    slots: torch.Tensor
    seg_start: torch.Tensor
    seg_length: torch.Tensor
    seg_depth: torch.Tensor
    parent_state: torch.Tensor
    state_out: torch.Tensor
    seg_parent: torch.Tensor
    seg_wave: torch.Tensor
    runs: Runs
    read_runs: Runs
    rows: torch.Tensor
    label_offsets: torch.Tensor
    label_ids: torch.Tensor
    prior: torch.Tensor
    temperature: torch.Tensor
    kv_slots: int
    state_slots: int
    waves: int

    def __post_init__(self) -> None:
        tokens, segments, reads = len(self.tokens), len(self.seg_start), len(self.rows)
        assert len(self.positions) == len(self.slots) == tokens
        assert len(self.seg_length) == len(self.seg_depth) == segments
        assert len(self.parent_state) == len(self.state_out) == segments
        assert len(self.seg_parent) == len(self.seg_wave) == segments
        assert len(self.runs.q_start) == segments
        assert len(self.read_runs.q_start) == len(self.temperature) == reads
        assert len(self.label_offsets) == reads + 1
        assert len(self.label_ids) == len(self.prior)

    def to(self, device: torch.device) -> Batch:
        """The same on another device."""
        moved: dict[str, Any] = {}
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, torch.Tensor | Runs):
                moved[field.name] = value.to(device)
        return replace(self, **moved)


@dataclass(frozen=True)
class Readout:
    """What one forward pass reads: fp32 tensors, labels in the CSR order of the batch.

    `logits` [L] raw; `probabilities` [L]; `legal_mass` [N], None when it wasn't asked for.
    """

    logits: torch.Tensor
    probabilities: torch.Tensor
    legal_mass: torch.Tensor | None
