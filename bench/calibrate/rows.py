"""`Rows`: raw logits beside the truth, one row a labelled question, as padded columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from readoff.bench.bootstrap import Floats
from readoff.engine.questions import QuestionType

Ints = NDArray[np.int64]
PAD = -1e30
"""The logit in a place beyond a row's options: finite, and of no weight at any temperature."""


@dataclass(frozen=True)
class Rows:
    """Columns of N rows and at most L options.

    `z` [N, L] raw logits, from `sizes` [N] on `PAD`; `target` [N, L] the truth, each row of sum 1;
    `weight` [N]; `state` [N] the number of the state: equal states have the same. `fields`, `types`
    and `options` say what was asked.
    """

    fields: tuple[str, ...]
    types: tuple[QuestionType, ...]
    options: tuple[tuple[str, ...], ...]
    sizes: Ints
    z: Floats
    target: Floats
    weight: Floats
    state: Ints

    def __post_init__(self) -> None:
        n = len(self.fields)
        assert len(self.types) == len(self.options) == len(self.sizes) == len(self.weight) == n
        assert self.z.shape == self.target.shape
        assert len(self.z) == len(self.state) == n

    def __len__(self) -> int:
        return len(self.fields)

    def where(self, mask: NDArray[np.bool_]) -> Rows:
        """The rows that `mask` [N] keeps."""
        kept = np.flatnonzero(mask)
        return Rows(
            fields=tuple(self.fields[i] for i in kept),
            types=tuple(self.types[i] for i in kept),
            options=tuple(self.options[i] for i in kept),
            sizes=self.sizes[kept],
            z=self.z[kept],
            target=self.target[kept],
            weight=self.weight[kept],
            state=self.state[kept],
        )

    def of_type(self, kind: QuestionType) -> NDArray[np.bool_]:
        """Which rows are of this type, [N]."""
        return np.array([found == kind for found in self.types], np.bool_)

    def of_field(self, name: str) -> NDArray[np.bool_]:
        """Which rows are of this field, [N]."""
        return np.array([found == name for found in self.fields], np.bool_)


def padded(rows: Sequence[Sequence[float]], fill: float) -> Floats:
    """Rows of different lengths as one array, `fill` beyond their ends."""
    made = np.full((len(rows), max(map(len, rows), default=0)), fill, np.float64)
    for line, row in zip(made, rows, strict=True):
        line[: len(row)] = row
    return made


def log_softmax(scores: Floats) -> Floats:
    """Along the last axis; what is padded gets a probability of 0."""
    shifted = scores - scores.max(axis=-1, keepdims=True)
    with np.errstate(under="ignore"):
        total = np.exp(shifted).sum(axis=-1, keepdims=True)
    found: Floats = shifted - np.log(total)
    return found
