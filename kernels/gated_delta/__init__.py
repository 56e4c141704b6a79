"""The gated delta rule over a forest of packed segments, states branched by index.

For each value head, with k and q L2-normalised, q scaled by Dk^-0.5, decay α and strength β:
    S ← α_t S;   S ← S + k_t ⊗ β_t (v_t - k_tᵀ S);   o_t = q_tᵀ S
(Yang, Kautz, Hatamizadeh: "Gated Delta Networks", 2024, in the form of Qwen3-Next and Qwen3.5.)

Contract of every implementation:
    q, k: [T, key_heads, Dk], v: [T, value_heads, Dv], as the convolution left them: the
        L2-norm (eps 1e-6) is part of the operator. Key head h serves the value heads
        h·r .. h·r + r - 1 with r = value_heads / key_heads.
    a, b: [T, value_heads], raw projections: log α = -exp(a_log) · softplus(a + dt_bias),
        β = sigmoid(b). a_log, dt_bias: [value_heads].
    states: [slots, value_heads, Dk, Dv] fp32; slot 0 is all zeros and never written.
    seg_start, seg_length, seg_depth: [S] int64; segments cover the rows; a parent's depth is
        smaller than its children's. An empty segment passes its parent's state on.
    parent_state: [S] int64, the slot a segment starts from (0: zeros); state_out: [S] int64, the
        slot its final state is written to, or -1. A slot may be written and read in one call, by
        segments of different depths (or by one: it is replaced), and is written once at most.
    seg_wave: [S] int64, waves: one more than its largest; both optional. Another way to put the
        segments in order: a segment's wave is larger than that of the segment whose state it
        starts from, or the same where it lies directly behind that one in the order of segments
        (parent_state[s] == state_out[s - 1] > 0). Chains then need one wave where depths need one
        for every link. "cpu", "torch" and "reference" ignore both; "triton" waits for the device
        to learn the largest depth where they aren't given.
    Rows and heads may lie apart in memory (slices of a wider product); their last dimension is
        contiguous.
    Returns [T, value_heads, Dv] in q's dtype. Norms, decays and states are fp32; products may take
        their factors in the dtype of the inputs, accumulating in fp32.
"""

from __future__ import annotations

import torch

from readoff.kernels import triton_support
from readoff.kernels.dispatch import Implementation, Op, always, by_name_on_cpu, on_cpu
from readoff.kernels.gated_delta import cpu, fixed
from readoff.kernels.gated_delta.checks import check, check_values
from readoff.kernels.gated_delta.reference import gated_delta as reference

__all__ = ["gated_delta"]

gated_delta: Op[..., torch.Tensor] = Op(
    "gated_delta",
    [
        triton_support.implementation(
            "gated_delta.triton", "gated_delta", "chunks of 64: prepare, states, outputs"
        ),
        Implementation("cpu", cpu.gated_delta, on_cpu("chunks of 32, inverse by blocks")),
        Implementation("torch", cpu.gated_delta, always("chunks of 32, inverse by blocks")),
        by_name_on_cpu(fixed.gated_delta, "segment by segment"),
        Implementation("reference", reference, always("fp32, token by token")),
    ],
    check,
    check_values,
)
