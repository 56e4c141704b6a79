"""The row-wise operators in few passes over memory, on any device. All are differentiable, but for
`swiglu`: `gradient` has that."""

from __future__ import annotations

import torch
import torch.nn.functional as F


def rms_norm(x: torch.Tensor, weight: torch.Tensor, eps: float, plus_one: bool) -> torch.Tensor:
    """x / sqrt(mean(x²) + eps) * (w or 1 + w), in fp32, rounded once."""
    scale = weight.float() + 1.0 if plus_one else weight.float()
    return (x * inverse_rms(x, eps) * scale).to(x.dtype)


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
    """q and k normalised and rotated in fp32, rounded once; k and v written to the pools."""
    k_pool.index_copy_(
        0, slots, _norm_rotate(k, k_weight, eps, plus_one, cos, sin).to(k_pool.dtype)
    )
    v_pool.index_copy_(0, slots, v.to(v_pool.dtype))
    if q_rows is not None:
        cos, sin = cos[q_rows], sin[q_rows]
    return _norm_rotate(q, q_weight, eps, plus_one, cos, sin)


def _norm_rotate(
    x: torch.Tensor,
    weight: torch.Tensor | None,
    eps: float,
    plus_one: bool,
    cos: torch.Tensor,
    sin: torch.Tensor,
) -> torch.Tensor:
    x32 = x.float()
    if weight is not None:
        x32 = x32 * inverse_rms(x, eps) * (weight.float() + 1.0 if plus_one else weight.float())
    half = cos.shape[-1]
    cos, sin = cos[:, None], sin[:, None]  # [T, 1, R/2]
    first, second, rest = x32.split([half, half, x.shape[-1] - 2 * half], dim=-1)
    turned = torch.cat([first * cos - second * sin, second * cos + first * sin, rest], dim=-1)
    return turned.to(x.dtype)


def swiglu(gate_up: torch.Tensor, size: int) -> torch.Tensor:
    """silu(gate) * up."""
    gate, up = gate_up.split(size, dim=-1)
    return F.silu(gate).mul_(up)


def gated_rms_norm(
    x: torch.Tensor, z: torch.Tensor, weight: torch.Tensor, eps: float
) -> torch.Tensor:
    """norm(x) * w * silu(z) over the last axis, in fp32, rounded once."""
    return (x * inverse_rms(x, eps) * weight.float() * F.silu(z.float())).to(x.dtype)


def sigmoid_gate(x: torch.Tensor, gate: torch.Tensor) -> torch.Tensor:
    """x * sigmoid(gate)."""
    return x * torch.sigmoid(gate)


def inverse_rms(x: torch.Tensor, eps: float) -> torch.Tensor:
    """1 / sqrt(mean(x²) + eps) over the last axis, fp32. One pass over x, no widened copy of it."""
    square = torch.linalg.vector_norm(x, dim=-1, keepdim=True, dtype=torch.float32).square()
    return torch.rsqrt(square / x.shape[-1] + eps)
