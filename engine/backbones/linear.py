"""`Linear`: a layer over packed rows whose weight may be several projections of a checkpoint."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

from readoff.engine.weights import Weights
from readoff.kernels.linear import linear, pack


class Linear(nn.Module):
    """y = x Wᵀ + b; W stacks the rows of one or more projections, [sum of sizes, in_features].

    `pack` replaces the weight by the CPU library's blocked form; after it there is no gradient.
    """

    def __init__(self, in_features: int, sizes: Sequence[int], bias: bool = False) -> None:
        super().__init__()
        self.sizes = tuple(sizes)
        self.weight = nn.Parameter(torch.empty(sum(sizes), in_features), requires_grad=False)
        self.bias = nn.Parameter(torch.empty(sum(sizes)), requires_grad=False) if bias else None
        self._packed: torch.Tensor | None = None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[T, in] -> [T, sum of sizes]."""
        return linear(x, self.weight if self._packed is None else self._packed, self.bias)

    def load(self, names: Sequence[str], weights: Weights) -> None:
        """Fill the rows from the projections `names` (without ".weight"), one a size."""
        for name, rows in zip(names, self.weight.split(self.sizes), strict=True):
            weights.copy_into(f"{name}.weight", rows)
        if self.bias is not None:
            for name, part in zip(names, self.bias.split(self.sizes), strict=True):
                weights.copy_into(f"{name}.bias", part)

    def pack(self) -> None:
        """Keep the weight in the CPU library's own layout only, where it has one."""
        packed = pack(self.weight)
        if packed is not self.weight:
            self._packed = packed
            self.weight = nn.Parameter(self.weight.new_empty(0), requires_grad=False)

    @property
    def is_packed(self) -> bool:
        """Whether the weight is in the CPU library's layout."""
        return self._packed is not None

    def dense(self) -> torch.Tensor:
        """The plain weight, [sum of sizes, in_features]."""
        return self.weight if self._packed is None else self._packed.to_dense()
