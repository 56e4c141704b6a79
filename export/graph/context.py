"""`Context`: what all blocks of one graph share."""

from __future__ import annotations

from dataclasses import dataclass

import onnx_ir as ir

from readoff.engine.backbones.traits import Traits
from readoff.engine.config import ModelConfig
from readoff.export.graph.builder import Builder
from readoff.export.graph.options import GraphOptions
from readoff.export.graph.stored import Tensors


@dataclass(frozen=True)
class Context:
    """The model, the choices, and where weights come from."""

    config: ModelConfig
    traits: Traits
    options: GraphOptions
    tensors: Tensors

    def vector(self, b: Builder, name: str, plus: float = 0.0) -> ir.Value:
        """A stored vector of the checkpoint in fp32 under its own name."""
        return b.weight(name, self.tensors.vector(name, plus))


@dataclass(frozen=True)
class Rows:
    """Which rows ask: their rotary angles, and which keys they see.

    `cos`, `sin`: [P, T, 1, R/2] fp32. `bias`: [P, 1, 1, T, S + T'] fp32, to be added to scores
    against S keys of the past and T' new ones. P is 1 where all rows have the same past.
    """

    cos: ir.Value
    sin: ir.Value
    bias: ir.Value


@dataclass(frozen=True)
class Shared:
    """What depends on the inputs alone, computed once for all layers.

    `batch`, `time`, `past`: B, T and S, vectors of one int64. `keys`: S and T, a vector of two;
    `has_past`: [1] bool, whether S isn't 0. `last_keys`: [B] int32, the place of each row's last
    key where new keys follow the true past; `total_keys`: int32, S + T; `true_queries`: [B] int32,
    the lengths; all three only where the contrib operator needs them. `all_rows`: every new
    token asks; `read_rows`: the last of each row only. `last`: [B, 1, 1] int64, its number.
    `true`: [B, T, 1] bool, false behind a row's end. `tail`: [B, K - 1, 1] int64, the last inputs
    of the convolution among tail and tokens; only in hybrids.
    """

    batch: ir.Value
    time: ir.Value
    past: ir.Value
    keys: ir.Value
    has_past: ir.Value
    all_rows: Rows
    read_rows: Rows
    last: ir.Value
    true: ir.Value
    tail: ir.Value | None
    last_keys: ir.Value | None
    total_keys: ir.Value | None
    true_queries: ir.Value | None
