"""The readout over gathered label rows; the full head only in blocks, and only when asked."""

from __future__ import annotations

import torch

from readoff.kernels.label_readout.reading import Reading

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
    ordinal: torch.Tensor | None = None,
) -> Reading:
    """See the contract in the package's docstring. Logits and probabilities are differentiable."""
    normed = _norm(hidden[rows], norm_weight, eps, plus_one)  # [N, H]
    counts = label_offsets.diff()
    question = torch.repeat_interleave(torch.arange(len(rows), device=rows.device), counts)  # [L]
    distinct, inverse = torch.unique(label_ids, return_inverse=True)
    table = normed @ head[distinct].float().t()  # [N, distinct labels]
    logits = table[question, inverse]
    scaled = (logits - prior) / temperature[question]
    # One padded softmax: labels of a question beyond its own count stay at -inf. The first column
    # is 0 for questions without labels, whose softmax would be NaN.
    place = torch.arange(len(label_ids), device=rows.device) - label_offsets[question]
    grid = scaled.new_full((len(rows), max([1, *counts.tolist()])), float("-inf"))
    grid[:, 0] = 0.0
    grid = grid.index_put((question, place), scaled).softmax(-1)  # [N, most labels]
    told = _tell(grid.detach(), counts, ordinal)
    return Reading(logits, grid[question, place], *told)


def _tell(
    p: torch.Tensor, counts: torch.Tensor, ordinal: torch.Tensor | None
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """(best, confidence, expected) of probabilities padded with zeros, [N, most labels]."""
    levels = torch.arange(p.shape[1], device=p.device, dtype=torch.float32)
    best = p.argmax(-1)
    n = counts.float()
    confidence = (n * p.amax(-1) - 1.0) / (n - 1.0)
    if ordinal is not None:
        spread = (p * (levels - best[:, None]).abs()).sum(-1)
        # Σ |i - (n - 1)/2| is the whole part of n²/4.
        confidence = torch.where(ordinal, 1.0 - spread * n / (n * n / 4).floor(), confidence)
    confidence = torch.where(counts > 1, confidence.clamp(0.0, 1.0), counts.float())
    return best, confidence, p @ levels


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
