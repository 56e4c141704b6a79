"""Depthwise causal convolution over packed segments, SiLU fused, continued by index.

Contract of every implementation:
    x: [T, C]; weight: [C, K]; tails: [slots, K - 1, C], the last inputs a segment leaves behind;
        slot 0 is all zeros and never written.
    seg_start, seg_length, seg_depth: [S] int64, the segments in packed rows; a parent's depth is
        smaller than its children's. An empty segment passes its parent's tail on.
    parent_state: [S] int64, the slot that holds the parent's tail (0 at a root); state_out: [S]
        int64, the slot the segment's own tail is written to, or -1. A slot may be written and
        read in the same call.
    Returns [T, C] in x's dtype: silu(Σ_j weight[:, j] · input[t - (K - 1) + j]).
"""

from __future__ import annotations

import torch

from readoff.kernels.causal_conv import cpu
from readoff.kernels.causal_conv.reference import causal_conv as reference
from readoff.kernels.dispatch import Implementation, Op, always, on_cpu

__all__ = ["causal_conv"]

_T = torch.Tensor

causal_conv: Op[[_T, _T, _T, _T, _T, _T, _T, _T], _T] = Op(
    "causal_conv",
    [
        Implementation("cpu", cpu.causal_conv, on_cpu("one channels-last convolution")),
        Implementation("torch", cpu.causal_conv, always("one channels-last convolution")),
        Implementation("reference", reference, always("fp32")),
    ],
)
