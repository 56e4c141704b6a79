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
        slot its final state is written to, or -1. A slot may be written and read in one call.
    Returns [T, value_heads, Dv] in q's dtype. Norms, decays and states are fp32; products may take
        their factors in the dtype of the inputs, accumulating in fp32.
"""

from __future__ import annotations

import torch

from readoff.kernels.dispatch import Implementation, Op, always, on_cpu
from readoff.kernels.gated_delta import cpu
from readoff.kernels.gated_delta.reference import gated_delta as reference

__all__ = ["gated_delta"]

_T = torch.Tensor

gated_delta: Op[[_T, _T, _T, _T, _T, _T, _T, _T, _T, _T, _T, _T, _T], _T] = Op(
    "gated_delta",
    [
        Implementation("cpu", cpu.gated_delta, on_cpu("chunks of 64, one triangular solve")),
        Implementation("torch", cpu.gated_delta, always("chunks of 64, one triangular solve")),
        Implementation("reference", reference, always("fp32, token by token")),
    ],
)
