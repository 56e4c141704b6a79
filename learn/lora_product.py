"""y = x Wᵀ + b + scale · x Aᵀ Bᵀ with W frozen: one node of the graph, no gradient of W.

Everything but the pairs' own gradients is in the dtype of x; x and x Aᵀ are all that is kept for
the way back.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import torch
from torch import nn

from readoff.engine.backbones.linear import Linear
from readoff.engine.loading import packing_serves
from readoff.kernels.linear import Kind, Weight, linear, pack, quantise

Spans: TypeAlias = tuple[tuple[int, int], ...]


class Frozen(nn.Module):
    """A linear layer that is multiplied by forward and by its transpose on the way back.

    Where the CPU's library has a layout of its own, W is kept in that, once for either way: that
    is a tenth faster than the plain one (3 times in fp32), and takes twice its memory.

    With `back` W is multiplied in 8 bits on the way back, with `ahead` also forward: rows of x and
    of the gradient, and W's rows, or its columns on the way back, get a scale each. The gradient
    is then that of W, taken through rounded numbers.
    """

    def __init__(self, base: Linear, ahead: Kind | None = None, back: Kind | None = None) -> None:
        """`base` must hold its weight plain; it may be packed or quantised afterwards."""
        super().__init__()
        self.base = base
        self.shape = tuple(base.weight.shape)
        self._turned: Weight | None = None
        packs = packing_serves(base.weight.dtype, base.weight.device)
        if back is not None:
            self._turned = pack(quantise(base.weight.t(), back))
            if ahead is not None:
                base.quantise(ahead)
            elif packs:
                base.pack()
        elif packs:
            turned = pack(base.weight.t())
            if turned.is_mkldnn:  # not every build and processor has the layout for every dtype
                self._turned = turned
                base.pack()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[T, K] -> [T, N]."""
        y: torch.Tensor = self.base(x)
        return y

    def back(self, g: torch.Tensor) -> torch.Tensor:
        """The gradient of the input, [T, N] -> [T, K]."""
        if self._turned is None:
            return g @ self.base.weight
        return linear(g, self._turned, None)


def lora_product(
    x: torch.Tensor,
    frozen: Frozen,
    spans: Spans,
    scale: float,
    matrices: Sequence[torch.Tensor],
) -> torch.Tensor:
    """[T, K] -> [T, N].

    spans: the rows of the weight that each pair changes, disjoint. matrices: first every A,
    [rank, K], then every B, [rows of the span, rank].
    """
    out: torch.Tensor = _LoraProduct.apply(x, frozen, spans, scale, *matrices)  # type: ignore[no-untyped-call]
    return out


class _LoraProduct(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *args: Any) -> torch.Tensor:
        x, frozen, spans, scale, *matrices = args
        count = len(spans)
        down = torch.cat(matrices[:count]).to(x.dtype)  # [R, K], R the sum of the ranks
        up = _up(matrices[count:], spans, scale, x, frozen.shape[0])  # [N, R]
        inner = x @ down.t()  # [T, R]
        y: torch.Tensor = frozen(x)
        y.addmm_(inner, up.t())
        ctx.save_for_backward(x, inner, down, up)
        ctx.frozen, ctx.spans, ctx.scale = frozen, spans, scale
        return y

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        g = grads[0].contiguous()  # [T, N]
        x, inner, down, up = ctx.saved_tensors
        at_inner = g @ up  # [T, R]
        dx = None
        if ctx.needs_input_grad[0]:
            dx = ctx.frozen.back(g)
            dx.addmm_(at_inner, down)
        rank = down.shape[0] // len(ctx.spans)
        da = (at_inner.t() @ x).float().split(rank)
        # The full product has also what one pair's inner gives to another's rows; it is dropped.
        whole = (inner.t() @ g).float()  # [R, N]
        db = [
            whole[i * rank : (i + 1) * rank, start:stop].t() * ctx.scale
            for i, (start, stop) in enumerate(ctx.spans)
        ]
        return dx, None, None, None, *da, *db


def _up(
    matrices: Sequence[torch.Tensor], spans: Spans, scale: float, like: torch.Tensor, rows: int
) -> torch.Tensor:
    """All B, scaled, each at its rows and its own columns: [N, R], zeros elsewhere."""
    rank = matrices[0].shape[1]
    up = like.new_zeros(rows, rank * len(matrices))
    for i, ((start, stop), matrix) in enumerate(zip(spans, matrices, strict=True)):
        up[start:stop, i * rank : (i + 1) * rank] = matrix * scale
    return up
