"""Depthwise causal convolution over packed segments, SiLU fused, continued by index.

Contract of every implementation:
    x: [T, C]; weight: [C, K]; tails: [slots, K - 1, C], the last inputs a segment leaves behind;
        slot 0 is all zeros and never written.
    seg_start, seg_length, seg_depth: [S] int64, the segments in packed rows; a parent's depth is
        smaller than its children's. An empty segment passes its parent's tail on.
    parent_state: [S] int64, the slot that holds the parent's tail (0 at a root); state_out: [S]
        int64, the slot the segment's own tail is written to, or -1. A slot may be written and
        read in the same call: it is then its writer's child that reads it.
    seg_parent: optional, [S] int64, the segment of this call that each one continues, or -1:
        whose state_out is its parent_state. It saves an implementation finding out.
    An empty segment with state_out -1 does nothing; what comes out for rows of no segment is
        undefined.
    x and tails share a dtype; x has dense rows of any stride, weight and tails are contiguous.
    Returns [T, C] in x's dtype: silu(Σ_j weight[:, j] · input[t - (K - 1) + j]).
"""

from __future__ import annotations

import torch

from readoff.kernels import triton_support
from readoff.kernels.causal_conv import cpu, fixed
from readoff.kernels.causal_conv.checks import check, check_values
from readoff.kernels.causal_conv.reference import causal_conv as reference
from readoff.kernels.dispatch import Implementation, Op, always, by_name_on_cpu, on_cpu

__all__ = ["causal_conv"]

causal_conv: Op[..., torch.Tensor] = Op(
    "causal_conv",
    [
        triton_support.implementation(
            "causal_conv.triton", "causal_conv", "outputs and tails in one launch"
        ),
        Implementation("cpu", cpu.causal_conv, on_cpu("one channels-last convolution")),
        Implementation("torch", cpu.causal_conv, always("one channels-last convolution")),
        by_name_on_cpu(fixed.causal_conv, "segment by segment"),
        Implementation("reference", reference, always("fp32")),
    ],
    check,
    check_values,
)
