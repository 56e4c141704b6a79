"""Naive fp32 forms of the row-wise operators."""

from __future__ import annotations

import torch


def rms_norm(x: torch.Tensor, weight: torch.Tensor, eps: float, plus_one: bool) -> torch.Tensor:
    """x / sqrt(mean(x²) + eps) * (w or 1 + w)."""
    x32 = x.float()
    normed = x32 / torch.sqrt((x32 * x32).mean(-1, keepdim=True) + eps)
    return (normed * (weight.float() + 1.0 if plus_one else weight.float())).to(x.dtype)


def add_rms_norm(
    x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, eps: float, plus_one: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    """The norm of a sum, and the sum."""
    total = x + residual
    return rms_norm(total, weight, eps, plus_one), total


def norm_rope_write(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    q_weight: torch.Tensor | None,
    k_weight: torch.Tensor | None,
    eps: float,
    plus_one: bool,
    cos: torch.Tensor,
    sin: torch.Tensor,
    q_rows: torch.Tensor | None,
    k_pool: torch.Tensor,
    v_pool: torch.Tensor,
    slots: torch.Tensor,
) -> torch.Tensor:
    """q and k normalised and rotated; k and v written to the pools."""
    if q_weight is not None:
        q = rms_norm(q, q_weight, eps, plus_one)
    if k_weight is not None:
        k = rms_norm(k, k_weight, eps, plus_one)
    rows = torch.arange(len(cos), device=q.device) if q_rows is None else q_rows
    k_pool[slots] = _rotate(k, cos, sin).to(k_pool.dtype)
    v_pool[slots] = v.to(v_pool.dtype)
    return _rotate(q, cos[rows], sin[rows])


def _rotate(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    half = cos.shape[-1]
    out = x.float().clone()
    for i in range(half):
        first, second = x[..., i].float(), x[..., i + half].float()
        c, s = cos[:, i, None], sin[:, i, None]
        out[..., i] = first * c - second * s
        out[..., i + half] = second * c + first * s
    return out.to(x.dtype)


def swiglu(gate_up: torch.Tensor, size: int) -> torch.Tensor:
    """silu(gate) * up."""
    gate, up = gate_up[..., :size].float(), gate_up[..., size:].float()
    return (gate * torch.sigmoid(gate) * up).to(gate_up.dtype)


def gated_rms_norm(
    x: torch.Tensor, z: torch.Tensor, weight: torch.Tensor, eps: float
) -> torch.Tensor:
    """norm(x) * w * silu(z) over the last axis."""
    x32, z32 = x.float(), z.float()
    normed = x32 / torch.sqrt((x32 * x32).mean(-1, keepdim=True) + eps)
    return (normed * weight.float() * z32 * torch.sigmoid(z32)).to(x.dtype)


def sigmoid_gate(x: torch.Tensor, gate: torch.Tensor) -> torch.Tensor:
    """x * sigmoid(gate)."""
    return (x.float() * torch.sigmoid(gate.float())).to(x.dtype)
