"""y = x Wᵀ + b over packed rows.

Contract of every implementation:
    x: [T, K] floating; weight: [N, K] of the same dtype, or what `pack` made of it;
    bias: [N] or None. Returns [T, N] in x's dtype, accumulated in fp32.
"""

from __future__ import annotations

import torch

from readoff.kernels.dispatch import Implementation, Op, Site, Verdict, always
from readoff.kernels.linear import cpu
from readoff.kernels.linear.cpu import pack
from readoff.kernels.linear.reference import linear as reference

__all__ = ["linear", "pack"]


def _onednn(site: Site) -> Verdict:
    if site.layout != "packed":
        return False, "the weight isn't packed"
    return True, "oneDNN with a weight packed once"


def _plain(site: Site) -> Verdict:
    if site.layout == "packed":
        return False, "the weight is packed"
    return True, "torch.nn.functional.linear"


linear: Op[[torch.Tensor, torch.Tensor, torch.Tensor | None], torch.Tensor] = Op(
    "linear",
    [
        Implementation("onednn", cpu.linear_packed, _onednn),
        Implementation("plain", cpu.linear_plain, _plain),
        Implementation("reference", reference, always("fp32")),
    ],
)
