"""Grouped-query attention over a past and the new tokens, in standard operators."""

from __future__ import annotations

import onnx_ir as ir

from readoff.export.graph.builder import CONTRIB, Builder
from readoff.export.graph.context import Context, Rows, Shared
from readoff.export.graph.linear import make_linear
from readoff.export.graph.norms import make_rms_norm
from readoff.export.graph.rotary import make_rotary


def make_attention(
    b: Builder,
    context: Context,
    shared: Shared,
    x: ir.Value,
    past: tuple[ir.Value, ir.Value],
    new: tuple[str, str],
    reading: bool,
) -> ir.Value:
    """x: [B, T, H] normed; past: key and value, [P, S, kv_heads, D].

    Keys and values of the new tokens become the outputs called `new`. Returns [B, T, H]; where
    `reading`, only the rows that are read ask, and the result is [B, 1, H].
    """
    rows = shared.read_rows if reading else shared.all_rows
    key, value = make_key_value(b, context, shared, x, new)
    if reading:
        x = b.op("GatherND", x, shared.last, batch_dims=1)
    query, gate = make_query(b, context, x, rows)
    contrib = context.options.flavour == "contrib" and not reading
    make = make_contrib_product if contrib else make_product
    return make_output(b, context, make(b, context, shared, query, (key, value), past, rows), gate)


def make_product(
    b: Builder,
    context: Context,
    shared: Shared,
    query: ir.Value,
    new: tuple[ir.Value, ir.Value],
    past: tuple[ir.Value, ir.Value],
    rows: Rows,
) -> ir.Value:
    """query: [B, Q, heads, D], scaled; new: key and value, [B, T, kv_heads, D], past like them.

    Keys and values are never repeated: the queries of a group lie side by side, and a past of one
    row is broadcast by the product. Returns [B, Q, heads · D].
    """
    config = context.config
    heads, kv_heads, dim = config.num_heads, config.num_kv_heads, config.head_dim
    grouped = b.transpose(b.reshape(query, 0, 0, kv_heads, heads // kv_heads, dim), 0, 2, 3, 1, 4)
    stacked = _stored(b, context, b.reshape(grouped, 0, kv_heads, -1, dim))  # [B, kv, G Q, D]

    pairs = [(_stored(b, context, k), _stored(b, context, v)) for k, v in (past, new)]
    scores = [b.op("MatMul", stacked, b.transpose(k, 0, 2, 3, 1)) for k, _ in pairs]
    scores = [b.cast(s, ir.DataType.FLOAT) if _half(context) else s for s in scores]
    score = b.op("Concat", *scores, axis=-1)  # [B, kv, G Q, S + T]
    width = b.size(score, 3)
    score = b.reshape(score, 0, kv_heads, heads // kv_heads, -1, width)
    share = b.op("Softmax", b.op("Add", score, rows.bias), axis=-1)
    share = b.reshape(share, 0, kv_heads, -1, width)
    shares = b.ops("Split", share, shared.keys, outputs=[None, None], axis=-1)
    mixed = [
        b.op("MatMul", _stored(b, context, s), b.transpose(v, 0, 2, 1, 3))
        for s, (_, v) in zip(shares, pairs, strict=True)
    ]
    mixed = [b.cast(m, ir.DataType.FLOAT) if _half(context) else m for m in mixed]
    # Old runtimes leave a product over no keys at all unwritten.
    mixed[0] = b.op("Where", shared.has_past, mixed[0], b.number(0.0))
    out = b.reshape(b.op("Add", *mixed), 0, kv_heads, heads // kv_heads, -1, dim)
    return b.reshape(b.transpose(out, 0, 3, 1, 2, 4), 0, 0, heads * dim)


def make_contrib_product(
    b: Builder,
    context: Context,
    shared: Shared,
    query: ir.Value,
    new: tuple[ir.Value, ir.Value],
    past: tuple[ir.Value, ir.Value],
    rows: Rows,
) -> ir.Value:
    """The same as ONNX Runtime's operator, for queries of all T tokens; it masks by itself.

    What it makes of the padding behind a row isn't promised, so nothing is made of it here.
    """
    config = context.config
    heads, kv_heads, dim = config.num_heads, config.num_kv_heads, config.head_dim
    shape = b.vector(shared.batch, kv_heads, shared.past, dim)
    before = [b.op("Expand", b.transpose(part, 0, 2, 1, 3), shape) for part in past]
    flat = [b.reshape(_stored(b, context, part), 0, 0, kv_heads * dim) for part in new]
    out, *_ = b.ops(
        "GroupQueryAttention",
        b.reshape(_stored(b, context, query), 0, 0, heads * dim),
        *flat,
        *before,
        shared.last_keys,
        shared.total_keys,
        *[None] * 9,
        shared.true_queries,
        domain=CONTRIB,
        outputs=[None, None, None],
        num_heads=heads,
        kv_num_heads=kv_heads,
        scale=1.0,
    )
    out = b.cast(out, ir.DataType.FLOAT) if _half(context) else out
    return b.op("Where", shared.true, out, b.number(0.0))


def make_key_value(
    b: Builder, context: Context, shared: Shared, x: ir.Value, new: tuple[str, str]
) -> tuple[ir.Value, ir.Value]:
    """Keys, normed and turned, and values of x, [B, T, kv_heads, D], as the outputs `new`."""
    config = context.config
    shape = (0, 0, config.num_kv_heads, config.head_dim)
    key = b.reshape(make_linear(b.within("k_proj"), context, x, config.qkv_bias), *shape)
    value = b.reshape(make_linear(b.within("v_proj"), context, x, config.qkv_bias), *shape)
    if context.traits.qk_norm:
        key = make_rms_norm(b.within("k_norm"), context, key, context.traits.plus_one)
    key = make_rotary(b.within("k_rotary"), context, key, shared.all_rows.cos, shared.all_rows.sin)
    kind = ir.DataType.FLOAT16 if _half(context) else None
    return _named(b, key, new[0], kind), _named(b, value, new[1], kind)


def make_query(
    b: Builder, context: Context, x: ir.Value, rows: Rows
) -> tuple[ir.Value, ir.Value | None]:
    """Queries, normed, turned and scaled, [B, Q, heads, D], and the output gate like them."""
    config = context.config
    query = make_linear(b.within("q_proj"), context, x, config.qkv_bias)
    gate = None
    query = b.reshape(query, 0, 0, config.num_heads, -1)
    if context.traits.output_gate:
        query, gate = b.split(query, config.head_dim, config.head_dim)
    if context.traits.qk_norm:
        query = make_rms_norm(b.within("q_norm"), context, query, context.traits.plus_one)
    query = make_rotary(b.within("q_rotary"), context, query, rows.cos, rows.sin)
    return b.op("Mul", query, b.number(config.head_dim**-0.5)), gate


def make_output(b: Builder, context: Context, out: ir.Value, gate: ir.Value | None) -> ir.Value:
    """[B, Q, heads · D], gated where there is a gate [B, Q, heads, D], to [B, Q, H]."""
    if gate is not None:
        width = context.config.num_heads * context.config.head_dim
        out = b.op("Mul", out, b.op("Sigmoid", b.reshape(gate, 0, 0, width)))
    return make_linear(b.within("o_proj"), context, out)


def _half(context: Context) -> bool:
    return context.options.precision == "fp16"


def _stored(b: Builder, context: Context, x: ir.Value) -> ir.Value:
    """x in the type that products take and the past has."""
    return b.cast(x, ir.DataType.FLOAT16) if _half(context) else x


def _named(b: Builder, x: ir.Value, name: str, kind: ir.DataType | None) -> ir.Value:
    """x as the graph's output `name`."""
    if kind is not None:
        return b.op("Cast", x, to=kind.value, output=name)
    return b.op("Identity", x, output=name)
