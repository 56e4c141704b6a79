"""Norms, rotary embedding and gates: everything that looks at one row at a time.

`plus_one` says that a norm multiplies by 1 + w (Qwen3.5) instead of w. Norms compute in fp32 and
round once. Rotary pairs are (x_i, x_{i + R/2}) over the first R dimensions of a head; the rest
passes through.

The elements of the last axis are adjacent in every operand; rows, and heads within them, may be
strided, as slices of a fused projection are. Results are contiguous.
"""

from __future__ import annotations

import torch

from readoff.kernels import triton_support
from readoff.kernels.dispatch import Implementation, Op, always, by_name_on_cpu
from readoff.kernels.pointwise import checks, cpu, fixed, gradient
from readoff.kernels.pointwise import reference as naive

__all__ = [
    "add_rms_norm",
    "gated_rms_norm",
    "norm_rope_write",
    "rms_norm",
    "sigmoid_gate",
    "swiglu",
]

_T = torch.Tensor
_N = torch.Tensor | None
FIXED = "tiles of one shape, so that no row depends on the others"

rms_norm: Op[[_T, _T, float, bool], _T] = Op(
    "rms_norm",
    [
        triton_support.implementation("pointwise.triton", "rms_norm", "one launch"),
        Implementation("torch", gradient.rms_norm, always()),
        by_name_on_cpu(fixed.rms_norm, FIXED),
        Implementation("reference", naive.rms_norm, always("fp32")),
    ],
    checks.rms_norm,
)
"""(x [T, H], weight [H], eps, plus_one) -> [T, H]."""

add_rms_norm: Op[[_T, _T, _T, float, bool], tuple[_T, _T]] = Op(
    "add_rms_norm",
    [
        triton_support.implementation("pointwise.triton", "add_rms_norm", "one launch"),
        Implementation("torch", gradient.add_rms_norm, always()),
        by_name_on_cpu(fixed.add_rms_norm, FIXED),
        Implementation("reference", naive.add_rms_norm, always("fp32")),
    ],
    checks.add_rms_norm,
)
"""(x [T, H], residual [T, H], weight, eps, plus_one) -> (norm(x + residual), x + residual)."""

norm_rope_write: Op[[_T, _T, _T, _N, _N, float, bool, _T, _T, _N, _T, _T, _T], _T] = Op(
    "norm_rope_write",
    [
        triton_support.implementation("pointwise.triton", "norm_rope_write", "one launch"),
        Implementation("torch", cpu.norm_rope_write, always()),
        by_name_on_cpu(fixed.norm_rope_write, FIXED),
        Implementation("reference", naive.norm_rope_write, always("fp32")),
    ],
    checks.norm_rope_write,
    checks.norm_rope_write_values,
)
"""(q [M, Hq, D], k [T, Hkv, D], v [T, Hkv, D], q_weight [D] or None, k_weight, eps, plus_one,
cos [T, R/2] fp32, sin, q_rows [M] int64 or None, k_pool [slots, Hkv, D], v_pool, slots [T] int64)
-> like q.

Normalises q and k (where there are weights), rotates both, and writes k and v to the slots of the
pools, which are laid out alike. q_rows names the rows of cos and sin that belong to q; None when q
has all T rows. Slot -1, of a padding row, isn't written; only "triton" may be given any."""

swiglu: Op[[_T, int], _T] = Op(
    "swiglu",
    [
        triton_support.implementation("pointwise.triton", "swiglu", "one launch"),
        Implementation("torch", gradient.swiglu, always()),
        by_name_on_cpu(fixed.swiglu, FIXED),
        Implementation("reference", naive.swiglu, always("fp32")),
    ],
    checks.swiglu,
)
"""(gate_up [T, 2 I], I) -> silu(gate) * up, [T, I]."""

gated_rms_norm: Op[[_T, _T, _T, float], _T] = Op(
    "gated_rms_norm",
    [
        triton_support.implementation("pointwise.triton", "gated_rms_norm", "one launch"),
        Implementation("torch", cpu.gated_rms_norm, always()),
        by_name_on_cpu(fixed.gated_rms_norm, FIXED),
        Implementation("reference", naive.gated_rms_norm, always("fp32")),
    ],
    checks.gated_rms_norm,
)
"""(x [T, H, D], z [T, H, D], weight [D], eps) -> norm(x) * w * silu(z); plain w, never 1 + w."""

sigmoid_gate: Op[[_T, _T], _T] = Op(
    "sigmoid_gate",
    [
        triton_support.implementation("pointwise.triton", "sigmoid_gate", "one launch"),
        Implementation("torch", cpu.sigmoid_gate, always()),
        by_name_on_cpu(fixed.sigmoid_gate, FIXED),
        Implementation("reference", naive.sigmoid_gate, always("fp32")),
    ],
    checks.sigmoid_gate,
)
"""(x [T, K] or [T, H, D], gate like x) -> x * sigmoid(gate), like x."""
