"""The linear layer in Triton: of floats in one launch, of 8 bits in two."""

from __future__ import annotations

import torch

from readoff.kernels.linear import product, rows
from readoff.kernels.linear.product import multiply_rows
from readoff.kernels.linear.quantised import QuantisedWeight, Weight
from readoff.kernels.linear.rows import quantise_rows
from readoff.kernels.specimens import Specimen

__all__ = ["linear", "quantise_rows", "specimens"]


def linear(x: torch.Tensor, weight: Weight, bias: torch.Tensor | None) -> torch.Tensor:
    """See the operator. An 8-bit weight takes a launch more: the rows' own scales come first."""
    if not isinstance(weight, QuantisedWeight):
        return multiply_rows(x, weight, bias, x.dtype)
    values, scales = quantise_rows(x, weight.kind)
    return multiply_rows(values, weight.plain_values(), bias, x.dtype, (scales, weight.scales))


def specimens() -> list[Specimen]:
    """Every kernel of the folder."""
    return product.specimens() + rows.specimens()
