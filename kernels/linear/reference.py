"""Naive fp32 linear layer."""

from __future__ import annotations

import torch


def linear(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
    """y = x Wᵀ + b in fp32, rounded once to x's dtype. Takes packed weights too."""
    if weight.is_mkldnn:
        weight = weight.to_dense()
    y = x.float() @ weight.float().t()
    if bias is not None:
        y = y + bias.float()
    return y.to(x.dtype)
