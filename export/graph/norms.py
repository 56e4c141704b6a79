"""RMSNorm, in fp32."""

from __future__ import annotations

import onnx_ir as ir

from readoff.export.graph.builder import Builder
from readoff.export.graph.context import Context


def make_rms_norm(b: Builder, context: Context, x: ir.Value, plus_one: bool) -> ir.Value:
    """x / sqrt(mean(x²) + eps) · w over the last axis; the builder's path names the weight.

    `plus_one`: the checkpoint stores w - 1. In this form ONNX Runtime makes one operator of it.
    """
    weight = context.vector(b, f"{b.path}.weight", 1.0 if plus_one else 0.0)
    mean = b.op("ReduceMean", b.op("Pow", x, b.number(2.0)), axes=[-1], keepdims=1)
    spread = b.op("Sqrt", b.op("Add", mean, b.number(context.config.rms_norm_eps)))
    return b.op("Mul", b.op("Div", x, spread), weight)


def make_unit(b: Builder, x: ir.Value) -> ir.Value:
    """x / sqrt(|x|² + 1e-6) over the last axis."""
    square = b.op("ReduceSumSquare", x, axes=[-1], keepdims=1)
    length = b.op("Sqrt", b.op("Add", square, b.number(1e-6)))
    return b.op("Div", x, length)
