"""Which combinations of a test's parameters to run, and operands with NaN all around them."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import combinations, product
from typing import Any

import pytest
import torch


def pairs_first(**axes: Sequence[Any]) -> Any:
    """Parametrises over the product of `axes`; what pairs don't need carries the marker `slow`.

    The combinations without the marker hold every pair of values of any two axes.
    """
    every = list(product(*axes.values()))
    chosen = set(_pairwise([len(axis) for axis in axes.values()]))
    params = []
    for places, values in zip(product(*(range(len(a)) for a in axes.values())), every, strict=True):
        marks = () if places in chosen else (pytest.mark.slow,)
        params.append(pytest.param(*values, marks=marks, id="-".join(map(str, values))))
    return pytest.mark.parametrize(tuple(axes), params)


def _pairwise(sizes: Sequence[int]) -> list[tuple[int, ...]]:
    """Places into axes of `sizes` that hold every pair, found greedily, the same at every call."""
    draw = random.Random(0)
    axes = range(len(sizes))
    missing = {
        ((a, i), (b, j))
        for a, b in combinations(axes, 2)
        for i in range(sizes[a])
        for j in range(sizes[b])
    }
    chosen = []
    while missing:
        (a, i), (b, j) = min(missing)
        tries = []
        for _ in range(50):
            places = [draw.randrange(size) for size in sizes]
            places[a], places[b] = i, j
            tries.append(tuple(places))
        best = max(tries, key=lambda places: len(missing & _pairs(places)))
        missing -= _pairs(best)
        chosen.append(best)
    return chosen


def _pairs(places: tuple[int, ...]) -> set[tuple[tuple[int, int], tuple[int, int]]]:
    return set(combinations(enumerate(places), 2))  # type: ignore[arg-type]


def guarded(x: torch.Tensor, gap: int = 0) -> torch.Tensor:
    """`x` as a view into a larger buffer of NaN (zeros where x holds integers).

    One more entry lies at both ends of the first axis; `gap` more at both ends of every other, so
    that rows, and heads within them, are strided.
    """
    shape = [x.shape[0] + 2, *(n + 2 * gap for n in x.shape[1:])]
    buffer = torch.full(shape, torch.nan if x.is_floating_point() else 0, dtype=x.dtype)
    view = buffer[(slice(1, -1), *(slice(gap, gap + n) for n in x.shape[1:]))]
    view.copy_(x)
    return view
