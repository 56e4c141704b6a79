"""Attention run by run: its bits depend on a run's own queries and keys only."""

from __future__ import annotations

import torch

from readoff.kernels.tree_attention import cpu


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
    """See the contract in the package's docstring."""
    out = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    offsets = chain_offsets.tolist()
    zero = q_start.new_zeros(1)
    for s, (start, length) in enumerate(zip(q_start.tolist(), q_length.tolist(), strict=True)):
        one = slice(s, s + 1)
        spans = chain_spans[offsets[s] : offsets[s + 1]]
        out[start : start + length] = cpu.tree_attention(
            q[start : start + length].contiguous(),
            k_pool,
            v_pool,
            zero,
            q_length[one],
            kv_start[one],
            kv_length[one],
            chain_offsets.new_tensor([0, len(spans)]),
            spans,
            scale,
        )
    return out
