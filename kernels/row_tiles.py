"""Row-wise functions over tiles of one constant shape, so that no row depends on the others.

An elementwise kernel treats the last elements of a range apart from those that fill a vector, and
a threaded one cuts its range by the number of elements: the bits of exp or cos then depend on where
in memory a number lies. Here every call has the same shape, the last tile filled up with zero rows;
a tile is too small to be cut for threads, and ends with a full vector where its width allows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import gcd

import torch

_GRAIN = 32768
"""Elements of one call: torch gives a thread no fewer (at::internal::GRAIN_SIZE)."""

_VECTOR = 64
"""Elements that a vectorised loop takes at a time, at most."""


def tile_rows(width: int) -> int:
    """Rows of a tile of `width` elements a row."""
    whole = _VECTOR // gcd(width, _VECTOR)  # rows that fill whole vectors
    return max(1, _GRAIN // width // whole) * whole


def by_tiles(
    function: Callable[..., torch.Tensor], inputs: Sequence[torch.Tensor], width: int
) -> torch.Tensor:
    """`function(*tiles)` over tiles of `inputs`, each [T, ...], as one tensor [T, ...].

    `width` is the largest number of elements in a row of any input or output.
    """
    rows, size = len(inputs[0]), tile_rows(width)
    parts = []
    for at in range(0, rows, size):
        tiles = [x.new_zeros(size, *x.shape[1:]) for x in inputs]
        n = min(size, rows - at)
        for tile, x in zip(tiles, inputs, strict=True):
            tile[:n] = x[at : at + n]
        parts.append(function(*tiles)[:n])
    if not parts:
        return function(*inputs)
    return torch.cat(parts)
