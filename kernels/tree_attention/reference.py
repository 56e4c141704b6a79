"""Naive fp32 tree attention: one dense, masked softmax a run."""

from __future__ import annotations

import torch


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
    heads, kv_heads = q.shape[1], k_pool.shape[1]
    outputs, rows = [], []
    for s in range(len(q_start)):
        n, own = int(q_length[s]), int(kv_length[s])
        spans = chain_spans[int(chain_offsets[s]) : int(chain_offsets[s + 1])].tolist()
        slots = [torch.arange(a, a + m) for a, m in [*spans, (int(kv_start[s]), own)]]
        index = torch.cat(slots).to(q.device)
        row = torch.arange(int(q_start[s]), int(q_start[s]) + n, device=q.device)
        k = k_pool[index].float().repeat_interleave(heads // kv_heads, dim=1)  # [K, Hq, D]
        v = v_pool[index].float().repeat_interleave(heads // kv_heads, dim=1)
        scores = torch.einsum("qhd,khd->hqk", q[row].float(), k) * scale
        last_seen = len(index) - n + torch.arange(n, device=q.device)
        hidden = torch.arange(len(index), device=q.device)[None, :] > last_seen[:, None]
        probabilities = scores.masked_fill(hidden, float("-inf")).softmax(-1)
        outputs.append(torch.einsum("hqk,khd->qhd", probabilities, v))
        rows.append(row)
    out = torch.zeros(q.shape, device=q.device)
    return out.index_copy(0, torch.cat(rows), torch.cat(outputs)).to(q.dtype)
