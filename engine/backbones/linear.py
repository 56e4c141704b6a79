"""`Linear`: a layer over packed rows whose weight may be several projections of a checkpoint."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

from readoff.engine.weights import Weights
from readoff.kernels.linear import Kind, QuantisedWeight, Weight, linear, pack, quantise


class Linear(nn.Module):
    """y = x Wᵀ + b; W stacks the rows of one or more projections, [sum of sizes, in_features].

    `pack` replaces the weight by the CPU library's blocked form, `quantise` by 8 bits; after
    either there is no gradient.
    """

    def __init__(self, in_features: int, sizes: Sequence[int], bias: bool = False) -> None:
        super().__init__()
        self.sizes = tuple(sizes)
        self.weight = nn.Parameter(torch.empty(sum(sizes), in_features), requires_grad=False)
        self.bias = nn.Parameter(torch.empty(sum(sizes)), requires_grad=False) if bias else None
        self._stored: Weight | None = None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[T, in] -> [T, sum of sizes]."""
        return linear(x, self.weight if self._stored is None else self._stored, self.bias)

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
            self._keep(packed)

    def quantise(self, kind: Kind) -> None:
        """Keep the weight in 8 bits only, in the CPU library's own layout where it has one."""
        self._keep(pack(quantise(self.dense(), kind)))

    def _keep(self, stored: Weight) -> None:
        self._stored = stored
        self.weight = nn.Parameter(self.weight.new_empty(0), requires_grad=False)

    @property
    def layout(self) -> str:
        """How the weight is kept: "plain", "packed", "int8" or "fp8"."""
        if isinstance(self._stored, QuantisedWeight):
            return self._stored.site_layout
        return "plain" if self._stored is None else "packed"

    @property
    def is_packed(self) -> bool:
        """Whether the weight is in the CPU library's layout."""
        return self.layout == "packed"

    def dense(self) -> torch.Tensor:
        """The plain weight, [sum of sizes, in_features]; of 8 bits what they stand for, in fp32."""
        if isinstance(self._stored, QuantisedWeight):
            return self._stored.dense()
        return self.weight if self._stored is None else self._stored.to_dense()
