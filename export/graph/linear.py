"""Linear layers and embeddings in every precision."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from readoff.engine.parameters import EMBEDDING, HEAD
from readoff.export.graph.builder import CONTRIB, Builder
from readoff.export.graph.context import Context
from readoff.export.graph.quantise import blockwise, by_column, by_row
from readoff.export.graph.stored import Tensors

FINE = frozenset({"down_proj"})
"""Layers, by the last part of their name, whose inputs have 16 bits in fine graphs, where those of
others have 8: some of an MLP's inner values are so large that 8 bits leave the others few levels.
It costs a second product."""

MIXING = ("q_proj", "k_proj", "v_proj", "o_proj", "in_proj_qkv", "in_proj_z", "out_proj")
EIGHT = frozenset({"down_proj", *MIXING})
"""Layers whose weights have 8 bits in int4 graphs: those of an MLP that are left hold most of the
weights, and stand 4 bits best."""

_FINER = 254.0
"""Fine inputs are a coarse number and a rest of at most half a step, which is so much finer: both
are of 8 bits."""

INT8_PRODUCTS = 4
"""MatMulNBits' level of accuracy at which it rounds its input to 8 bits, a scale for each block."""


def make_linear(
    b: Builder, context: Context, x: ir.Value, bias: bool = False, exact: bool = False
) -> ir.Value:
    """x Wᵀ + bias for fp32 x [..., in], as fp32 [..., out]; the builder's path names the weight.

    `exact`: in fp32 whatever the precision of the others is.
    """
    name = f"{b.path}.weight"
    options = context.options
    last = b.path.rpartition(".")[2]
    exact = exact or last in options.kept
    eight = options.precision == "int8" and options.flavour == "standard"
    eight = eight or (options.precision == "int4" and last in EIGHT)
    if exact or options.precision == "fp32":
        weight = b.weight(name, Tensors(context.tensors.checkpoint).transposed(name))
        y = b.op("MatMul", x, weight)
    elif options.precision == "fp16":
        weight = b.weight(name, context.tensors.transposed(name))
        half = b.cast(x, ir.DataType.FLOAT16)
        y = b.cast(b.op("MatMul", half, weight), ir.DataType.FLOAT)
    elif eight:
        y = _integer_product(b, context, x, name)
    else:
        y = _blockwise_product(b, context, x, name, 8 if options.precision == "int8" else 4)
    if bias:
        y = b.op("Add", y, context.vector(b, f"{b.path}.bias"))
    return y


def make_embedding(b: Builder, context: Context, ids: ir.Value, name: str = EMBEDDING) -> ir.Value:
    """The rows `ids`, [...] int64, of the embedding or of the head: [..., H] fp32."""
    if context.options.precision == "fp32":
        return b.op("Gather", b.weight(name, context.tensors.table(name)), ids, axis=0)
    if context.options.precision == "fp16":
        rows = b.op("Gather", b.weight(name, context.tensors.table(name)), ids, axis=0)
        return b.cast(rows, ir.DataType.FLOAT)
    numbers, scales = by_row(context.tensors, name)
    rows = b.op("Gather", b.weight(f"{name}.int8", numbers), ids, axis=0)
    scale = b.op("Gather", b.weight(f"{name}.scale", scales), ids, axis=0)
    return b.op("Mul", b.cast(rows, ir.DataType.FLOAT), scale)


def head_name(context: Context) -> str:
    """The tensor that label rows are taken from."""
    return EMBEDDING if context.config.tie_word_embeddings else HEAD


def _integer_product(b: Builder, context: Context, x: ir.Value, name: str) -> ir.Value:
    """Both sides in 8 bits: x with a scale for each row, W with one for each output.

    Rows have scales of their own so that none depends on its company, and because a few tokens are
    hundreds of times as large as the others.
    """
    numbers, scales = by_column(context.tensors, name)
    weight, scale = b.weight(f"{name}.int8", numbers), b.weight(f"{name}.scale", scales)
    largest = b.op("ReduceMax", b.op("Abs", x), axes=[-1], keepdims=1)
    step = b.op("Max", b.op("Mul", largest, b.number(1.0 / 127.0)), b.number(1e-30))
    step = b.op("Add", step, _taint(b, x))
    level = b.op("Div", x, step)  # from -127 to 127, not yet rounded
    if context.options.fine_inputs and b.path.rpartition(".")[2] in FINE:
        coarse = b.op("Round", level)
        y = _byte_product(b, coarse, 1.0, weight, scale)
        rest = _byte_product(b, b.op("Sub", level, coarse), 1.0 / _FINER, weight, scale)
        y = b.op("Add", y, b.op("Mul", rest, b.number(1.0 / _FINER)))
    else:
        y = _byte_product(b, level, 1.0, weight, scale)
    return b.op("Mul", y, step)


def _taint(b: Builder, x: ir.Value) -> ir.Value:
    """0 for each row of finite numbers, NaN for others: [..., 1]. Quantising would turn a NaN into
    a number like any other, and a damaged model into one that answers."""
    return b.op("Mul", b.op("ReduceSum", x, b.ints(-1), keepdims=1), b.number(0.0))


def _byte_product(
    b: Builder, x: ir.Value, step: float, weight: ir.Value, scale: ir.Value
) -> ir.Value:
    """x / step, rounded, times int8, summed in 32 bits; times the outputs' scales, as fp32.

    x must lie within 127 steps of 0. QuantizeLinear is one pass over memory where rounding,
    shifting and converting are three; DequantizeLinear of 32 bits runs on one thread only.
    """
    zero = b.constant(128, np.uint8)
    numbers = b.op("QuantizeLinear", x, b.number(step), zero)
    y = b.cast(b.op("MatMulInteger", numbers, weight, zero), ir.DataType.FLOAT)
    return b.op("Mul", y, scale)


def _blockwise_product(b: Builder, context: Context, x: ir.Value, name: str, bits: int) -> ir.Value:
    """W in 4 or 8 bits with a scale and a zero for each block of a row; x in 8 bits inside."""
    out_features, in_features = context.tensors.checkpoint.shape(name)
    block = context.options.block
    parts = blockwise(context.tensors, name, bits, block)
    y = b.op(
        "MatMulNBits",
        x,
        *(b.weight(f"{name}.{part}", tensor) for part, tensor in parts.items()),
        domain=CONTRIB,
        K=in_features,
        N=out_features,
        bits=bits,
        block_size=block,
        accuracy_level=INT8_PRODUCTS,
    )
    return b.op("Add", y, _taint(b, x))
