"""Gradients of the row-wise operators that training spends most on, in few passes over memory.

What comes out forward has the bits of `cpu`. Less is kept than autograd would: only what went in.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

from readoff.kernels.pointwise import cpu

once_differentiable = torch.autograd.function.once_differentiable


def rms_norm(x: torch.Tensor, weight: torch.Tensor, eps: float, plus_one: bool) -> torch.Tensor:
    """See the operator. Differentiable, once."""
    if torch.is_grad_enabled() and (x.requires_grad or weight.requires_grad):
        out: torch.Tensor = _RmsNorm.apply(x, weight, eps, plus_one)  # type: ignore[no-untyped-call]
        return out
    return cpu.rms_norm(x, weight, eps, plus_one)


def add_rms_norm(
    x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, eps: float, plus_one: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    """See the operator. Differentiable, once."""
    total = x + residual
    return rms_norm(total, weight, eps, plus_one), total


def swiglu(gate_up: torch.Tensor, size: int) -> torch.Tensor:
    """See the operator. Differentiable, once."""
    if torch.is_grad_enabled() and gate_up.requires_grad:
        out: torch.Tensor = _SwiGlu.apply(gate_up, size)  # type: ignore[no-untyped-call]
        return out
    return cpu.swiglu(gate_up, size)


class _RmsNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *args: Any) -> torch.Tensor:
        x, weight, eps, plus_one = args
        ctx.save_for_backward(x, weight)
        ctx.eps, ctx.plus_one = eps, plus_one
        return cpu.rms_norm(x, weight, eps, plus_one)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        """With r = 1 / rms(x) and h = g·w: dx = r h - x r³ mean(h x), dw = Σ g x r."""
        x, weight = ctx.saved_tensors
        inverse = cpu.inverse_rms(x, ctx.eps)  # [T, 1] fp32
        wide = x.float()
        scale = weight.float() + 1.0 if ctx.plus_one else weight.float()
        scaled = grads[0].float() * scale
        dx = dw = None
        if ctx.needs_input_grad[1]:
            rows = grads[0].float() * wide * inverse
            dw = rows.flatten(0, -2).sum(0).to(weight.dtype)
        if ctx.needs_input_grad[0]:
            mean = torch.linalg.vecdot(scaled, wide)[..., None] / x.shape[-1]
            dx = scaled.mul_(inverse).addcmul_(wide, mean * inverse**3, value=-1.0).to(x.dtype)
        return dx, dw, None, None


class _SwiGlu(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *args: Any) -> torch.Tensor:
        gate_up, size = args
        ctx.save_for_backward(gate_up)
        ctx.size = size
        return cpu.swiglu(gate_up, size)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        (gate_up,) = ctx.saved_tensors
        gate, up = gate_up.split(ctx.size, dim=-1)
        result = torch.empty_like(gate_up)
        d_gate, d_up = result.split(ctx.size, dim=-1)
        torch.mul(grads[0], F.silu(gate), out=d_up)
        # Into a tensor of its own first: the product with `up` is an input of the next operator.
        d_gate.copy_(torch.ops.aten.silu_backward(grads[0] * up, gate))
        return result, None
