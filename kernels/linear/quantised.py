"""`QuantisedWeight`: a weight in 8 bits with a scale for each output channel.

Symmetric: value = scale * stored. Rows of activations get a scale each at run time ("dynamic, per
token"), so that a product is (stored x · stored W) * row scale * channel scale.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

import torch

Kind: TypeAlias = Literal["int8", "fp8"]

STORED: dict[Kind, torch.dtype] = {"int8": torch.int8, "fp8": torch.float8_e4m3fn}
LARGEST: dict[Kind, float] = {"int8": 127.0, "fp8": 448.0}
"""What a row's largest magnitude becomes. -128 is left out: the range is symmetric."""

PRODUCTS: dict[Kind, tuple[str, ...]] = {"int8": ("int8", "triton"), "fp8": ("scaled_mm", "triton")}
"""The implementations of `linear` that are chosen for a kind where they run."""

SMALLEST_ROW = 1e-12
"""A row whose largest magnitude is below this one becomes (nearly) zeros."""

_BLOCK = 1 << 19
"""Numbers that are quantised at once: 2 MiB in fp32."""


@dataclass(frozen=True, eq=False)
class QuantisedWeight:
    """W ≈ scales[:, None] * values.

    `values`: [N, K] in the stored dtype of `kind`, or the CPU library's own form of it. `scales`:
    [N] fp32. `zero_points`: [N] int32 zeros, which that library wants to see.
    """

    kind: Kind
    values: torch.Tensor
    scales: torch.Tensor
    zero_points: torch.Tensor | None = None

    @property
    def site_layout(self) -> str:
        """What `Site.layout` says of this weight."""
        return self.kind

    @property
    def shape(self) -> tuple[int, int]:
        """(N, K)."""
        return self.scales.shape[0], self.values.numel() // self.scales.shape[0]

    @property
    def device(self) -> torch.device:
        """Where it is."""
        return self.values.device

    @property
    def is_packed(self) -> bool:
        """Whether `values` are in the CPU library's own form."""
        return self.values.is_mkldnn

    def plain_values(self) -> torch.Tensor:
        """`values` as [N, K] in the stored dtype."""
        # The library's form is one of the transpose.
        return self.values.to_dense().t().contiguous() if self.is_packed else self.values

    def dense(self) -> torch.Tensor:
        """What it stands for, [N, K] fp32."""
        return self.plain_values().float() * self.scales[:, None]


Weight: TypeAlias = torch.Tensor | QuantisedWeight
"""What `linear` multiplies by."""


def quantise_rows(x: torch.Tensor, kind: Kind) -> tuple[torch.Tensor, torch.Tensor]:
    """[R, K] floating -> ([R, K] in the stored dtype, [R] fp32 scales): nearest, ties to even."""
    # Not abs().amax(): that writes all of x once more.
    largest = torch.maximum(x.amax(dim=1), x.amin(dim=1).neg_()).float()  # [R]
    largest = largest.clamp_(min=SMALLEST_ROW)
    limit = LARGEST[kind]
    # A true division: `limit / largest` would be limit times a rounded reciprocal.
    factors = torch.full_like(largest, limit).div_(largest)[:, None]
    values = torch.empty(x.shape, dtype=STORED[kind], device=x.device)
    # On a CPU the steps between follow each other in the cache.
    block = max(1, _BLOCK // x.shape[1]) if x.device.type == "cpu" else max(1, len(x))
    for part, into, factor in zip(
        x.split(block), values.split(block), factors.split(block), strict=True
    ):
        scaled = part.float() * factor
        # The product's rounding may lead above the largest magnitude, and e4m3 has no room there.
        if kind == "int8":
            scaled.round_()
        into.copy_(scaled.clamp_(-limit, limit))
    return values, largest / limit


@torch.no_grad()
def quantise(weight: torch.Tensor, kind: Kind) -> QuantisedWeight:
    """The weight [N, K] in 8 bits, a scale for each output channel."""
    values, scales = quantise_rows(weight, kind)
    return QuantisedWeight(kind, values, scales)
