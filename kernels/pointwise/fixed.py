"""The row-wise operators tile by tile: a row's bits don't depend on the rows beside it."""

from __future__ import annotations

import torch

from readoff.kernels.pointwise import cpu
from readoff.kernels.row_tiles import by_tiles


def rms_norm(x: torch.Tensor, weight: torch.Tensor, eps: float, plus_one: bool) -> torch.Tensor:
    """See the contract in the package's docstring."""
    return by_tiles(lambda t: cpu.rms_norm(t, weight, eps, plus_one), [x], x.shape[-1])


def add_rms_norm(
    x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, eps: float, plus_one: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    """See the contract in the package's docstring."""
    total = x + residual  # a sum is the same whichever loop makes it
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
    """See the contract in the package's docstring."""

    def turned(
        x: torch.Tensor, weight: torch.Tensor | None, cos: torch.Tensor, sin: torch.Tensor
    ) -> torch.Tensor:
        return by_tiles(
            lambda t, c, s: cpu._norm_rotate(t, weight, eps, plus_one, c, s),
            [x, cos, sin],
            x.shape[1] * x.shape[2],
        )

    k_pool.index_copy_(0, slots, turned(k, k_weight, cos, sin).to(k_pool.dtype))
    v_pool.index_copy_(0, slots, v.to(v_pool.dtype))
    if q_rows is not None:
        cos, sin = cos[q_rows], sin[q_rows]
    return turned(q, q_weight, cos, sin)


def swiglu(gate_up: torch.Tensor, size: int) -> torch.Tensor:
    """See the contract in the package's docstring."""
    return by_tiles(lambda t: cpu.swiglu(t, size), [gate_up], gate_up.shape[-1])


def gated_rms_norm(
    x: torch.Tensor, z: torch.Tensor, weight: torch.Tensor, eps: float
) -> torch.Tensor:
    """See the contract in the package's docstring."""
    width = x.shape[1] * x.shape[2]
    return by_tiles(lambda t, u: cpu.gated_rms_norm(t, u, weight, eps), [x, z], width)


def sigmoid_gate(x: torch.Tensor, gate: torch.Tensor) -> torch.Tensor:
    """See the contract in the package's docstring."""
    return by_tiles(cpu.sigmoid_gate, [x, gate], x[0].numel() if len(x) else 1)
