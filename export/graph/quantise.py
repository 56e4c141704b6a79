"""Weights in 8 and 4 bits, rounded to the nearest, as initializers."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from readoff.export.graph.stored import Array, Stored, Tensors

Floats = NDArray[np.float32]


def by_column(tensors: Tensors, name: str) -> tuple[Stored, Stored]:
    """The weight of a linear layer, transposed: int8 [in, out], and its scales [out] fp32."""
    out_features, in_features = tensors.checkpoint.shape(name)

    def numbers() -> Iterable[Array]:
        weight = tensors.read(name).numpy()
        yield np.ascontiguousarray(_levels(weight, _scale(weight)).T)

    def scales() -> Iterable[Array]:
        yield _scale(tensors.read(name).numpy())[:, 0]

    return (
        Stored(numbers, ir.DataType.INT8, (in_features, out_features)),
        Stored(scales, ir.DataType.FLOAT, (out_features,)),
    )


def by_row(tensors: Tensors, name: str) -> tuple[Stored, Stored]:
    """A table that is looked up: int8 [rows, columns], and its scales [rows, 1] fp32."""
    shape = tensors.checkpoint.shape(name)

    def numbers() -> Iterable[Array]:
        return (_levels(block, _scale(block)) for block in tensors.rows(name))

    def scales() -> Iterable[Array]:
        return (_scale(block) for block in tensors.rows(name))

    return Stored(numbers, ir.DataType.INT8, shape), Stored(
        scales, ir.DataType.FLOAT, (shape[0], 1)
    )


def blockwise(tensors: Tensors, name: str, bits: int, block: int) -> dict[str, Stored]:
    """A linear layer's weight for MatMulNBits, by the names of its inputs, in their order.

    Each `block` inputs of an output have a scale and a zero point (see `_range`). Packed low bits
    first: [out, blocks, block · bits / 8].
    """
    out_features, in_features = tensors.checkpoint.shape(name)
    blocks = -(-in_features // block)
    packed = -(-blocks * bits // 8)

    def part(pick: Callable[[Floats, Floats, Floats], Array]) -> Callable[[], Iterable[Array]]:
        def made() -> Iterable[Array]:
            for rows in tensors.rows(name):
                padded = np.zeros((len(rows), blocks * block), np.float32)
                padded[:, :in_features] = rows
                weight = padded.reshape(len(rows), blocks, block)
                yield pick(weight, *_range(weight, bits))

        return made

    def numbers(weight: Floats, scale: Floats, zero: Floats) -> Array:
        return _packed(_nearest(weight, scale, zero, bits).astype(np.uint8), bits)

    return {
        f"int{bits}": Stored(
            part(numbers), ir.DataType.UINT8, (out_features, blocks, block * bits // 8)
        ),
        "scales": Stored(
            part(lambda weight, scale, zero: scale.reshape(-1)),
            ir.DataType.FLOAT,
            (out_features * blocks,),
        ),
        "zeros": Stored(
            part(lambda weight, scale, zero: _packed(zero[..., 0].astype(np.uint8), bits).ravel()),
            ir.DataType.UINT8,
            (out_features * packed,),
        ),
    }


def _range(weight: Floats, bits: int) -> tuple[Floats, Floats]:
    """Scale and zero point of each block, [.., 1], between its smallest and its largest weight.

    Narrower ranges with less squared error were tried and made answers worse: the largest weights
    are those that make the few large values which attention leans on.
    """
    low = np.minimum(weight.min(-1, keepdims=True), 0.0)
    high = np.maximum(weight.max(-1, keepdims=True), 0.0)
    scale = (high - low) / np.float32(2**bits - 1)
    scale[scale == 0.0] = 1.0
    return scale, np.rint(-low / scale)


def _nearest(weight: Floats, scale: Floats, zero: Floats, bits: int) -> Floats:
    """The level of each weight, a whole number from 0 to 2^bits - 1."""
    levels: Floats = np.clip(np.rint(weight / scale) + zero, 0, 2**bits - 1)
    return levels


def _scale(weight: Floats) -> Floats:
    """The step between levels of each row, [rows, 1]."""
    largest: Floats = np.abs(weight).max(-1, keepdims=True)
    largest[largest == 0.0] = 1.0
    return largest / np.float32(127.0)


def _levels(weight: Floats, scale: Floats) -> Array:
    levels: Array = np.rint(weight / scale).astype(np.int8)
    return levels


def _packed(levels: NDArray[np.uint8], bits: int) -> Array:
    """Levels of 4 bits two to a byte along the last axis, the first one low; of 8 as they are."""
    if bits == 8:
        return levels
    if levels.shape[-1] % 2:
        levels = np.concatenate([levels, np.zeros_like(levels[..., :1])], -1)
    packed: Array = levels[..., 0::2] | (levels[..., 1::2] << 4)
    return packed
