"""The inverse of unit lower triangular matrices in ordinary products, by block recursion."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from readoff.export.graph.builder import Builder

BASE = 16
"""Blocks of this size are inverted in place, larger ones from them."""


def make_unit_inverse(b: Builder, lower: ir.Value, size: int) -> ir.Value:
    """(I + A)⁻¹ for A, [.., size, size], strictly lower triangular; size is BASE times 2ⁿ.

    From the inverses X₁, X₂ of two neighbouring diagonal blocks and the block L below the first:
    the inverse of both has -X₂ L X₁ below. Powers of A would explode on repeated keys, where the
    entries of the inverse stay small; each step here makes a block of the true inverse.
    """
    count = size // BASE
    blocks = [_block(b, lower, i, i, BASE) for i in range(count)]
    stacked = b.op("Concat", *(b.unsqueeze(block, -3) for block in blocks), axis=-3)
    inverse = _base(b, stacked)  # [.., count, BASE, BASE]
    width = BASE
    while width < size:
        pairs = size // width // 2
        below = [_block(b, lower, 2 * i + 1, 2 * i, width) for i in range(pairs)]
        under = b.op("Concat", *(b.unsqueeze(block, -3) for block in below), axis=-3)
        first = b.op("Gather", inverse, b.ints(*range(0, 2 * pairs, 2)), axis=-3)
        second = b.op("Gather", inverse, b.ints(*range(1, 2 * pairs, 2)), axis=-3)
        corner = b.op("Neg", b.op("MatMul", second, b.op("MatMul", under, first)))
        upper = b.op("Concat", first, b.op("Mul", under, b.number(0.0)), axis=-1)
        inverse = b.op("Concat", upper, b.op("Concat", corner, second, axis=-1), axis=-2)
        width *= 2
    return b.op("Squeeze", inverse, b.ints(-3))


def _base(b: Builder, lower: ir.Value) -> ir.Value:
    """The same for blocks of BASE: all blocks of one width at once, picked by a mask.

    X holds the inverses of the diagonal blocks of a width; X (A ∘ mask) X is L's part for all pairs
    of them, and zero elsewhere.
    """
    rows = np.arange(BASE)
    inverse = b.constant(np.eye(BASE), np.float32)
    width = 1
    while width < BASE:
        pair, half = rows // (2 * width), rows // width
        mask = (pair[:, None] == pair) & (half[:, None] > half)
        under = b.op("Mul", lower, b.constant(mask, np.float32))
        if width > 1:
            under = b.op("MatMul", inverse, b.op("MatMul", under, inverse))
        inverse = b.op("Sub", inverse, under)
        width *= 2
    return inverse


def _block(b: Builder, x: ir.Value, row: int, column: int, width: int) -> ir.Value:
    """A block of the last two axes."""
    starts = (row * width, column * width)
    return b.op("Slice", x, b.ints(*starts), b.ints(*(s + width for s in starts)), b.ints(-2, -1))
