"""Norms, rotary embedding and gates: everything that looks at one row at a time.

`plus_one` says that a norm multiplies by 1 + w (Qwen3.5) instead of w. Norms compute in fp32 and
round once. Rotary pairs are (x_i, x_{i + R/2}) over the first R dimensions of a head; the rest
passes through.
"""

from __future__ import annotations

import torch

from readoff.kernels.dispatch import Implementation, Op, always
from readoff.kernels.pointwise import cpu
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

rms_norm: Op[[_T, _T, float, bool], _T] = Op(
    "rms_norm",
    [
        Implementation("torch", cpu.rms_norm, always()),
        Implementation("reference", naive.rms_norm, always("fp32")),
    ],
)
"""(x [T, H], weight [H], eps, plus_one) -> [T, H]."""

add_rms_norm: Op[[_T, _T, _T, float, bool], tuple[_T, _T]] = Op(
    "add_rms_norm",
    [
        Implementation("torch", cpu.add_rms_norm, always()),
        Implementation("reference", naive.add_rms_norm, always("fp32")),
    ],
)
"""(x [T, H], residual [T, H], weight, eps, plus_one) -> (norm(x + residual), x + residual)."""

norm_rope_write: Op[[_T, _T, _T, _N, _N, float, bool, _T, _T, _N, _T, _T, _T], _T] = Op(
    "norm_rope_write",
    [
        Implementation("torch", cpu.norm_rope_write, always()),
        Implementation("reference", naive.norm_rope_write, always("fp32")),
    ],
)
"""(q [M, Hq, D], k [T, Hkv, D], v [T, Hkv, D], q_weight [D] or None, k_weight, eps, plus_one,
cos [T, R/2] fp32, sin, q_rows [M] or None, k_pool [slots, Hkv, D], v_pool, slots [T]) -> like q.

Normalises q and k (where there are weights), rotates both, and writes k and v to the slots of the
pools. q_rows names the rows of cos and sin that belong to q; None when q has all T rows."""

swiglu: Op[[_T, int], _T] = Op(
    "swiglu",
    [
        Implementation("torch", cpu.swiglu, always()),
        Implementation("reference", naive.swiglu, always("fp32")),
    ],
)
"""(gate_up [T, 2 I], I) -> silu(gate) * up, [T, I]."""

gated_rms_norm: Op[[_T, _T, _T, float], _T] = Op(
    "gated_rms_norm",
    [
        Implementation("torch", cpu.gated_rms_norm, always()),
        Implementation("reference", naive.gated_rms_norm, always("fp32")),
    ],
)
"""(x [T, H, D], z [T, H, D], weight [D], eps) -> norm(x) * w * silu(z); plain w, never 1 + w."""

sigmoid_gate: Op[[_T, _T], _T] = Op(
    "sigmoid_gate",
    [
        Implementation("torch", cpu.sigmoid_gate, always()),
        Implementation("reference", naive.sigmoid_gate, always("fp32")),
    ],
)
"""(x [T, K], gate [T, K]) -> x * sigmoid(gate)."""
