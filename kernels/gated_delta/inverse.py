"""Inverses of many small lower triangular matrices with ones on their diagonals.

Blocks on the diagonal are inverted by forward substitution; then neighbours are joined, twice the
size at each level: the corner below [[P, 0], [C, Q]]⁻¹ is -Q⁻¹ C P⁻¹. No power of a matrix is ever
formed: powers explode where the inverse doesn't (repeated keys). One batched substitution over
whole matrices takes twice as long.
"""

from __future__ import annotations

from typing import Any

import torch

BLOCK = 16
"""Rows of the blocks that are inverted by substitution."""


def unit_inverse(x: torch.Tensor) -> torch.Tensor:
    """(I + strictly lower part of x)⁻¹ of x [N, W, W] fp32 or fp64, W a multiple of 16.

    Differentiable once. The result doesn't depend on the other matrices of the batch.
    """
    if not x.requires_grad:
        return _inverse(x)
    inverse: torch.Tensor = _UnitInverse.apply(x)  # type: ignore[no-untyped-call]
    return inverse


class _UnitInverse(torch.autograd.Function):
    """d(I + L)⁻¹ = -(I + L)⁻¹ dL (I + L)⁻¹: one gradient for all levels, which work in place."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        inverse = _inverse(x)
        ctx.save_for_backward(inverse)
        return inverse

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> torch.Tensor:
        (inverse,) = ctx.saved_tensors
        turned = inverse.transpose(1, 2)
        return -torch.bmm(turned, torch.bmm(grads[0], turned)).tril(-1)


def _inverse(x: torch.Tensor) -> torch.Tensor:
    width = x.shape[1]
    inverse = torch.zeros_like(x, memory_format=torch.contiguous_format)
    identity = torch.eye(BLOCK, dtype=x.dtype, device=x.device)
    blocks = _diagonal(x)
    _diagonal(inverse).copy_(
        torch.linalg.solve_triangular(
            blocks, identity.expand(blocks.shape), upper=False, unitriangular=True
        )
    )
    size = BLOCK
    while size < width:
        for start in range(0, width - size, 2 * size):
            upper = slice(start, start + size)
            lower = slice(start + size, min(start + 2 * size, width))
            corner = torch.bmm(x[:, lower, upper], inverse[:, upper, upper])
            inverse[:, lower, upper] = torch.bmm(inverse[:, lower, lower], corner).neg_()
        size *= 2
    return inverse


def _diagonal(x: torch.Tensor) -> torch.Tensor:
    """The blocks on the diagonals of x [N, W, W], a view: [N, W / 16, 16, 16]."""
    blocks: torch.Tensor = x.unflatten(2, (-1, BLOCK)).unflatten(1, (-1, BLOCK))
    return blocks.diagonal(dim1=1, dim2=3).movedim(-1, 1)
