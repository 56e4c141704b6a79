"""What all layers need to know about the rows: angles, masks, and where rows end."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from readoff.export.graph.builder import Builder
from readoff.export.graph.context import Context, Rows, Shared

HIDDEN = -1e30
"""Added to the score of a key that isn't seen: as good as -inf, but no NaN can come of it."""


def make_shared(
    b: Builder,
    context: Context,
    tokens: ir.Value,
    lengths: ir.Value,
    past_lengths: ir.Value,
    past_key: ir.Value | None,
) -> Shared:
    """tokens: [B, T], lengths: [B], past_lengths: [P], past_key: [P, S, heads, D], None where no
    layer has any."""
    batch, time = b.size(tokens, 0), b.size(tokens, 1)
    past = b.ints(0) if past_key is None else b.size(past_key, 1)
    steps = b.row_numbers(time)  # [T]
    keys = b.vector(past, time)
    has_past = b.op("Greater", past, b.ints(0))
    start = b.unsqueeze(past_lengths, 1)  # [P, 1]
    final = b.op("Sub", b.unsqueeze(lengths, 1), b.ints(1))  # [B, 1]
    columns = b.row_numbers(b.op("Add", past, time))  # [S + T]
    new = b.op("Sub", columns, past)  # of a key: its token, negative in the past
    is_new = b.op("GreaterOrEqual", columns, past)
    in_past = b.op("Less", columns, start)  # [P, S + T]
    in_past = b.op("And", in_past, b.op("Not", is_new))
    every = _rows(b.within("all"), context, start, b.unsqueeze(steps, 0), in_past, is_new, new)
    read = _rows(b.within("read"), context, start, final, in_past, is_new, new)
    true = b.unsqueeze(b.op("Less", b.unsqueeze(steps, 0), b.unsqueeze(lengths, 1)), 2)
    tail = None
    if context.config.is_hybrid:
        kept = b.ints(*range(context.config.conv_kernel - 1))
        tail = b.unsqueeze(b.op("Add", b.unsqueeze(lengths, 1), kept), 2)
    last_keys = total_keys = true_queries = None
    if context.options.flavour == "contrib":
        count = b.op("Add", past_lengths, b.op("Sub", lengths, b.ints(1)))
        last_keys = b.cast(count, ir.DataType.INT32)
        true_queries = b.cast(lengths, ir.DataType.INT32)
        total = b.op("Squeeze", b.op("Add", past, time), b.ints(0))
        total_keys = b.cast(total, ir.DataType.INT32)
    return Shared(
        batch=batch,
        time=time,
        past=past,
        keys=keys,
        has_past=has_past,
        all_rows=every,
        read_rows=read,
        last=b.unsqueeze(final, 2),
        true=true,
        tail=tail,
        last_keys=last_keys,
        total_keys=total_keys,
        true_queries=true_queries,
    )


def _rows(
    b: Builder,
    context: Context,
    start: ir.Value,
    numbers: ir.Value,
    in_past: ir.Value,
    is_new: ir.Value,
    new: ir.Value,
) -> Rows:
    """Rows that are the new tokens `numbers`, [1 or B, T], after `start` tokens, [P, 1]."""
    positions = b.cast(b.op("Add", start, numbers), ir.DataType.FLOAT)
    half = np.arange(0, context.config.rotary_dim, 2, dtype=np.float32)
    share = half / np.float32(context.config.rotary_dim)
    frequency = np.float32(1.0) / np.power(np.float32(context.config.rope_theta), share)
    angle = b.op("Mul", b.unsqueeze(positions, 2, 3), b.constant(frequency, np.float32))
    before = b.op("LessOrEqual", new, b.unsqueeze(numbers, 2))  # [1 or B, T, S + T]
    seen = b.op("Or", b.op("And", before, is_new), b.unsqueeze(in_past, 1))
    bias = b.op("Where", seen, b.number(0.0), b.number(HIDDEN))
    return Rows(b.op("Cos", angle), b.op("Sin", angle), b.unsqueeze(bias, 1, 2))
