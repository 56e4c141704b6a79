"""The gated delta rule in chunks of ordinary products; a loop carries the state between them.

The WY form of "Gated Delta Networks" (Yang, Kautz, Hatamizadeh, 2024). In a chunk, G the running
sum of log α, D = e^(G_i - G_j) for i ≥ j, A the strictly lower part of β (K Kᵀ) D: the values that
are written are V' = (I + A)⁻¹ β (V - e^G K S), read by O = e^G Q S + (Q Kᵀ D) V', and the state
becomes e^G_last S + (e^(G_last - G) K)ᵀ V'. What needs no state is one batch over all chunks. The
graph doesn't grow with the length: the chunks are an axis, and the loop a Scan over it.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from readoff.engine.config import ModelConfig
from readoff.export.graph.builder import Builder
from readoff.export.graph.inverse import make_unit_inverse
from readoff.export.graph.norms import make_unit

CHUNK = 64
"""Tokens of a chunk; rows are padded to a multiple by tokens that neither decay nor write."""

_SMALLEST = -80.0
"""Of exponents: e^-80 is nothing beside 1, and numbers below the normal ones are slow."""


def make_delta_rule(
    b: Builder,
    config: ModelConfig,
    time: ir.Value,
    mixed: ir.Value,
    decay: ir.Value,
    strength: ir.Value,
    state: ir.Value,
    new: str,
) -> ir.Value:
    """mixed: q, k, v side by side [B, T, C], as the convolution left them; decay (log α) and
    strength (β): [B, T, Hv], 0 where a token is padding; state: [B, Hv, Dk, Dv]; time: [1] int64.

    The state after the last token becomes the output `new`. Returns [B, T, Hv, Dv].
    """
    heads, values = config.linear_num_value_heads, config.linear_value_head_dim
    q, k, v, g, beta = _chunks(b, config, time, mixed, decay, strength)
    k = make_unit(b.within("key"), k)
    q = b.op("Mul", make_unit(b.within("query"), q), b.number(config.linear_key_head_dim**-0.5))
    total = b.op("CumSum", g, b.constant(3, np.int64))  # G: [N, B, Hv, C]
    last = b.slice(total, 3, CHUNK - 1, CHUNK)  # [N, B, Hv, 1]
    column = b.unsqueeze(total, -1)
    apart = b.op("Sub", column, b.unsqueeze(total, -2))
    apart = b.op("Exp", b.op("Clip", apart, b.number(_SMALLEST), b.number(0.0)))
    lower = np.tril(np.ones((CHUNK, CHUNK)))
    decayed = b.op("Mul", apart, b.constant(lower, np.float32))  # D: [N, B, Hv, C, C]
    keys = b.transpose(k, 0, 1, 2, 4, 3)  # [N, B, Hk, Dk, C]
    system = _for_values(b, config, b.op("MatMul", k, keys), decayed)
    system = b.op("Mul", system, b.unsqueeze(beta, -1))
    system = b.op("Mul", system, b.constant(np.tril(lower, -1), np.float32))
    inverse = make_unit_inverse(b.within("inverse"), system, CHUNK)
    inverse = b.op("Mul", inverse, b.unsqueeze(beta, -2))
    grown = b.op("Exp", column)
    left = b.op("Exp", b.unsqueeze(b.op("Sub", last, total), -2))  # [N, B, Hv, 1, C]
    scanned = (
        b.op("MatMul", inverse, v),
        b.op("MatMul", inverse, _for_values(b, config, k, grown)),
        _for_values(b, config, b.op("MatMul", q, keys), decayed),
        _for_values(b, config, q, grown),
        _for_values(b, config, keys, left),
        b.op("Exp", b.unsqueeze(last, -1)),
    )
    body = _body(b, config)
    _, out = b.ops(
        "Scan", state, *scanned, outputs=[new, None], body=body, num_scan_inputs=len(scanned)
    )
    out = b.transpose(out, 1, 0, 3, 2, 4)  # [B, N, C, Hv, Dv]
    return b.slice(b.reshape(out, 0, -1, heads, values), 1, 0, time)


def _chunks(
    b: Builder,
    config: ModelConfig,
    time: ir.Value,
    mixed: ir.Value,
    decay: ir.Value,
    strength: ir.Value,
) -> tuple[ir.Value, ...]:
    """Padded, cut and heads first: q, k, v [N, B, H, C, D], decay and strength [N, B, Hv, C]."""
    missing = b.op("Mod", b.op("Neg", time), b.ints(CHUNK))
    pads = b.vector(0, 0, 0, 0, missing, 0)
    key_heads, heads = config.linear_num_key_heads, config.linear_num_value_heads
    key_dim, value_dim = config.linear_key_head_dim, config.linear_value_head_dim
    width = key_heads * key_dim
    parts = b.split(b.op("Pad", mixed, pads), width, width, heads * value_dim)
    shapes = ((key_heads, key_dim), (key_heads, key_dim), (heads, value_dim))
    cut = [
        b.transpose(b.reshape(part, 0, -1, CHUNK, *shape), 1, 0, 3, 2, 4)
        for part, shape in zip(parts, shapes, strict=True)
    ]
    for part in (decay, strength):
        rows = b.reshape(b.op("Pad", part, pads), 0, -1, CHUNK, heads)
        cut.append(b.transpose(rows, 1, 0, 3, 2))
    return tuple(cut)


def _for_values(b: Builder, config: ModelConfig, x: ir.Value, factor: ir.Value) -> ir.Value:
    """x [N, B, Hk, i, j] times factor [N, B, Hv, i or 1, j or 1], each key head for its value
    heads: [N, B, Hv, i, j]."""
    key_heads = config.linear_num_key_heads
    repeat = config.linear_num_value_heads // key_heads
    if repeat == 1:
        return b.op("Mul", x, factor)
    tail = b.op("Shape", x, start=3)
    split = b.reshape(factor, 0, 0, key_heads, repeat, b.op("Shape", factor, start=3))
    product = b.op("Mul", b.unsqueeze(x, 3), split)
    return b.reshape(product, 0, 0, key_heads * repeat, tail)


def _body(b: Builder, config: ModelConfig) -> ir.Graph:
    """One chunk: the state and what was prepared for it; the next state, and the outputs."""
    b = b.body("chunk")
    heads = config.linear_num_value_heads
    keys, values = config.linear_key_head_dim, config.linear_value_head_dim
    shapes = {
        "state": (keys, values),
        "value": (CHUNK, values),
        "read_key": (CHUNK, keys),
        "attention": (CHUNK, CHUNK),
        "read_query": (CHUNK, keys),
        "write_key": (keys, CHUNK),
        "decay": (1, 1),
    }
    inputs = [_typed(ir.Value(name=f"{b.path}.{name}"), heads, *s) for name, s in shapes.items()]
    state, value, read_key, attention, read_query, write_key, decay = inputs
    written = b.op("Sub", value, b.op("MatMul", read_key, state))
    out = b.op("Add", b.op("MatMul", read_query, state), b.op("MatMul", attention, written))
    after = b.op("Add", b.op("Mul", decay, state), b.op("MatMul", write_key, written))
    outputs = [_typed(after, heads, keys, values), _typed(out, heads, CHUNK, values)]
    return ir.Graph(inputs, outputs, nodes=b.nodes, name=b.path)


def _typed(value: ir.Value, heads: int, rows: int, columns: int) -> ir.Value:
    """Old runtimes ask for the shapes at a loop's border."""
    value.type = ir.TensorType(ir.DataType.FLOAT)
    value.shape = ir.Shape(("batch", heads, rows, columns))
    return value
