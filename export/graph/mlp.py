"""The gated MLP."""

from __future__ import annotations

import onnx_ir as ir

from readoff.export.graph.builder import Builder
from readoff.export.graph.context import Context
from readoff.export.graph.linear import make_linear


def make_mlp(b: Builder, context: Context, x: ir.Value) -> ir.Value:
    """down(silu(gate(x)) · up(x)), [..., H] to [..., H]."""
    gate = make_linear(b.within("gate_proj"), context, x)
    up = make_linear(b.within("up_proj"), context, x)
    return make_linear(b.within("down_proj"), context, b.op("Mul", b.silu(gate), up))
