"""The readout over gathered label rows; the full head only in blocks, and only when asked."""

from __future__ import annotations

import torch

VOCABULARY_BLOCK = 8192
"""Rows of the head multiplied at a time for the legal mass."""


def label_readout(
    hidden: torch.Tensor,
    head: torch.Tensor,
    rows: torch.Tensor,
    norm_weight: torch.Tensor,
    eps: float,
    plus_one: bool,
    label_offsets: torch.Tensor,
    label_ids: torch.Tensor,
    prior: torch.Tensor,
    temperature: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor]:
    """See the contract in the package's docstring. Differentiable."""
    normed = _norm(hidden[rows], norm_weight, eps, plus_one)  # [N, H]
    counts = label_offsets.diff()
    question = torch.repeat_interleave(torch.arange(len(rows), device=rows.device), counts)  # [L]
    distinct, inverse = torch.unique(label_ids, return_inverse=True)
    table = normed @ head[distinct].float().t()  # [N, distinct labels]
    logits = table[question, inverse]
    scaled = (logits - prior) / temperature[question]
    # One padded softmax: labels of a question beyond its own count stay at -inf.
    place = torch.arange(len(label_ids), device=rows.device) - label_offsets[question]
    grid = scaled.new_full((len(rows), int(counts.max())), float("-inf"))
    grid = grid.index_put((question, place), scaled)
    return logits, grid.softmax(-1)[question, place]


def log_partition(
    hidden: torch.Tensor,
    head: torch.Tensor,
    rows: torch.Tensor,
    norm_weight: torch.Tensor,
    eps: float,
    plus_one: bool,
) -> torch.Tensor:
    """See the contract in the package's docstring. Never holds [N, vocab]."""
    normed = _norm(hidden[rows], norm_weight, eps, plus_one)
    total = torch.full((len(rows),), float("-inf"), device=rows.device)
    for block in head.split(VOCABULARY_BLOCK):
        # Widened: the label logits are fp32, and a share of them can't be taken of rounded ones.
        part = torch.logsumexp(normed @ block.float().t(), dim=-1)
        total = torch.logaddexp(total, part)
    return total


def _norm(x: torch.Tensor, weight: torch.Tensor, eps: float, plus_one: bool) -> torch.Tensor:
    x = x.float()
    x = x * torch.rsqrt((x * x).mean(-1, keepdim=True) + eps)
    return x * (weight.float() + 1.0 if plus_one else weight.float())
