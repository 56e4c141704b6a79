"""The gradient of `cpu.tree_attention`, batch by batch as the products went.

Autograd alone would do: but it copies a gradient of the whole output, and fills one of the whole
pools, for every run. Here the way back computes the probabilities again (FlashAttention, Dao et al.
2022) and adds to the pools' gradients in place, in fp32. The gradient through the mean of the keys
is zero, since softmax ignores it.
"""

from __future__ import annotations

from typing import Any

import torch

from readoff.kernels.tree_attention import cpu
from readoff.kernels.tree_attention.cpu import Run, Spans


def tree_attention(
    q: torch.Tensor,
    k_pool: torch.Tensor,
    v_pool: torch.Tensor,
    q_start: torch.Tensor,
    q_length: torch.Tensor,
    kv_start: torch.Tensor,
    kv_length: torch.Tensor,
    chain_offsets: torch.Tensor,
    chain_spans: torch.Tensor,
    scale: float,
) -> torch.Tensor:
    """See the contract in the package's docstring. Differentiable, once."""
    runs = (q_start, q_length, kv_start, kv_length, chain_offsets, chain_spans)
    if torch.is_grad_enabled() and any(x.requires_grad for x in (q, k_pool, v_pool)):
        out: torch.Tensor = _TreeAttention.apply(q, k_pool, v_pool, *runs, scale)  # type: ignore[no-untyped-call]
        return out
    return cpu.tree_attention(q, k_pool, v_pool, *runs, scale)


class _TreeAttention(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *args: Any) -> torch.Tensor:
        ctx.save_for_backward(*args[:-1])
        ctx.scale = args[-1]
        return cpu.tree_attention(*args)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        q, k_pool, v_pool, *runs = ctx.saved_tensors
        way = _Back(q, k_pool, v_pool, grads[0], ctx.scale)
        for chain, members in cpu.families(*runs).items():
            k, v = cpu.gather(k_pool, chain), cpu.gather(v_pool, chain)
            for batch in cpu.batches(members, k.numel()):
                if cpu.is_long(batch):
                    way.long(chain, k, v, batch[0])
                else:
                    way.short(chain, k, v, batch)
        pools = way.dk.to(k_pool.dtype), way.dv.to(v_pool.dtype)
        return way.dq, *pools, *[None] * (len(runs) + 1)


class _Back:
    """Gradients so far: of q in its dtype, of the pools in fp32."""

    def __init__(
        self,
        q: torch.Tensor,
        k_pool: torch.Tensor,
        v_pool: torch.Tensor,
        grad: torch.Tensor,
        scale: float,
    ) -> None:
        self.q, self.k_pool, self.v_pool, self.grad, self.scale = q, k_pool, v_pool, grad, scale
        self.dq = torch.zeros_like(q)  # rows of no run have none
        self.dk = torch.zeros(k_pool.shape, dtype=torch.float32, device=q.device)
        self.dv = torch.zeros_like(self.dk)

    def long(self, chain: Spans, k_chain: torch.Tensor, v_chain: torch.Tensor, run: Run) -> None:
        """One run of many queries, block by block."""
        k, v = cpu.long_operands(self.k_pool, self.v_pool, k_chain, v_chain, run)
        dk, dv = (torch.zeros(k.shape, dtype=torch.float32, device=k.device) for _ in range(2))
        for rows, seen, corner in cpu.query_blocks(run, k.shape[2]):
            self.dq[rows], dk_block, dv_block = (
                x[0]
                for x in self._products(
                    self.q[rows][None],
                    k[:, :, :seen],
                    v[:, :, :seen],
                    self.grad[rows][None],
                    corner.to(k.device),
                )
            )
            dk[0, :, :seen] += dk_block
            dv[0, :, :seen] += dv_block
        own = slice(run.kv_start, run.kv_start + run.kv_length)
        for total, found in ((self.dk, dk), (self.dv, dv)):
            by_slot = found[0].transpose(0, 1)  # [L, Hkv, D]
            total[own] += by_slot[len(k_chain) :]
            _spread(total, chain, by_slot)

    def short(
        self, chain: Spans, k_chain: torch.Tensor, v_chain: torch.Tensor, runs: list[Run]
    ) -> None:
        """Several runs with the same ancestors."""
        rows, slots, corner = (one.to(self.q.device) for one in cpu.short_indices(runs))
        k, v = cpu.short_operands(self.k_pool, self.v_pool, k_chain, v_chain, slots)
        grad = self.grad[rows]
        for i, run in enumerate(runs):
            grad[i, run.q_length :] = 0.0  # padding repeats a row, whose gradient counts once
        dq, dk, dv = self._products(self.q[rows], k, v, grad, corner)
        for i, run in enumerate(runs):
            self.dq[run.q_start : run.q_start + run.q_length] = dq[i, : run.q_length]
        for total, found in ((self.dk, dk), (self.dv, dv)):
            by_slot = found.transpose(1, 2).float()  # [n, L, Hkv, D]
            own = by_slot[:, len(k_chain) :]
            for i, run in enumerate(runs):
                total[run.kv_start : run.kv_start + run.kv_length] += own[i, : run.kv_length]
            if chain:
                _spread(total, chain, by_slot[:, : len(k_chain)].sum(0))

    def _products(
        self,
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        grad: torch.Tensor,
        corner: torch.Tensor,
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Gradients of q [n, Lq, Hq, D], k and v [n, Hkv, L, D], in their dtype."""
        n, queries, heads, dim = q.shape
        kv_heads, keys = k.shape[1:3]
        shape = (n, kv_heads, heads // kv_heads, queries)
        flat_q, flat_grad = cpu.by_key_head(q, kv_heads), cpu.by_key_head(grad, kv_heads)
        flat_k, flat_v = (x.reshape(n * kv_heads, keys, dim) for x in (k, v))
        p = cpu.probabilities(flat_q, flat_k, corner, self.scale, shape)
        dv = torch.bmm(p.transpose(1, 2), flat_grad)
        dp = torch.bmm(flat_grad, flat_v.transpose(1, 2))
        ds = torch.ops.aten._softmax_backward_data(dp, p, -1, p.dtype).mul_(self.scale)
        dk = torch.bmm(ds.transpose(1, 2), flat_q)
        dq = torch.bmm(ds, flat_k).view(*shape, dim).permute(0, 3, 1, 2, 4)
        return dq.reshape(q.shape), dk.view(k.shape), dv.view(v.shape)


def _spread(total: torch.Tensor, chain: Spans, found: torch.Tensor) -> None:
    """Add gradients of a chain's keys, [L or more, Hkv, D], at the slots of its spans."""
    at = 0
    for slot, n in chain:
        total[slot : slot + n] += found[at : at + n]
        at += n
