"""Rotary positions."""

from __future__ import annotations

import onnx_ir as ir

from readoff.export.graph.builder import Builder
from readoff.export.graph.context import Context


def make_rotary(
    b: Builder, context: Context, x: ir.Value, cos: ir.Value, sin: ir.Value
) -> ir.Value:
    """x: [B, T, .., D]; cos, sin: [P, T, .., R/2] that broadcast.

    Turns the pairs (x_i, x_i+R/2); dimensions from R on stay as they are.
    """
    half = context.config.rotary_dim // 2
    rest = context.config.head_dim - 2 * half
    first, second, *others = b.split(x, half, half, *([rest] if rest else []))
    turned = (
        b.op("Sub", b.op("Mul", first, cos), b.op("Mul", second, sin)),
        b.op("Add", b.op("Mul", second, cos), b.op("Mul", first, sin)),
    )
    return b.op("Concat", *turned, *others, axis=-1)
