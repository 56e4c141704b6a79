"""Naive fp32 linear layer."""

from __future__ import annotations

import torch

from readoff.kernels.linear.quantised import QuantisedWeight, Weight, quantise_rows


def linear(x: torch.Tensor, weight: Weight, bias: torch.Tensor | None) -> torch.Tensor:
    """y = x Wᵀ + b in fp32, rounded once to x's dtype.

    Takes packed weights too. With an 8-bit weight the rows of x are quantised as the products do
    it, and what the 8-bit numbers stand for is multiplied in fp32.
    """
    if isinstance(weight, QuantisedWeight):
        values, scales = quantise_rows(x, weight.kind)
        y = (values.float() @ weight.plain_values().float().t()) * scales[:, None] * weight.scales
    else:
        if weight.is_mkldnn:
            weight = weight.to_dense()
        y = x.float() @ weight.float().t()
    if bias is not None:
        y = y + bias.float()
    return y.to(x.dtype)
