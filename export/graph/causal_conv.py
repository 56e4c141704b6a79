"""The short causal convolution of a hybrid layer, continued from a tail."""

from __future__ import annotations

import onnx_ir as ir

from readoff.export.graph.builder import CONTRIB, Builder
from readoff.export.graph.context import Context, Shared
from readoff.export.graph.interface import channels


def make_causal_conv(
    b: Builder, context: Context, shared: Shared, x: ir.Value, tail: ir.Value, new: str
) -> ir.Value:
    """x: [B, T, C]; tail: [P, K - 1, C], the inputs before it. Returns silu(convolution), like x.

    The last K - 1 inputs of each row's true tokens become the output `new`.
    """
    taps, width = context.config.conv_kernel, channels(context.config)
    assert shared.tail is not None
    tail = b.op("Expand", tail, b.vector(shared.batch, taps - 1, width))
    inputs = b.op("Concat", tail, x, axis=1)  # [B, K - 1 + T, C]
    b.op("GatherND", inputs, shared.tail, batch_dims=1, output=new)
    name = f"{b.path}.weight"
    if context.options.flavour == "contrib":
        weight = context.tensors.small(name, (width, 1, taps), lambda w: w)
        out, _ = b.ops(
            "CausalConvWithState",
            x,
            b.weight(name, weight),
            None,
            tail,
            domain=CONTRIB,
            outputs=[None, None],
            activation="silu",
            channels_last=1,
        )
        return out
    # Shift, scale and add: a convolution operator would want channels first.
    stacked = b.weight(
        f"{name}.taps", context.tensors.small(name, (taps, width), lambda w: w[:, 0].T)
    )
    total: ir.Value | None = None
    for tap in range(taps):
        shifted = b.slice(inputs, 1, tap, b.op("Add", shared.time, b.ints(tap)))
        term = b.op("Mul", shifted, b.slice(stacked, 0, tap, tap + 1))
        total = term if total is None else b.op("Add", total, term)
    assert total is not None
    return b.silu(total)
