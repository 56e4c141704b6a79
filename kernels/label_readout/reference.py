"""Naive fp32 readout, question by question."""

from __future__ import annotations

import torch


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
    """See the contract in the package's docstring."""
    logits, probabilities = [], []
    for i, row in enumerate(rows.tolist()):
        labels = slice(int(label_offsets[i]), int(label_offsets[i + 1]))
        z = head[label_ids[labels]].float() @ _norm(hidden[row], norm_weight, eps, plus_one)
        logits.append(z)
        probabilities.append(torch.softmax((z - prior[labels]) / temperature[i], dim=0))
    return torch.cat(logits), torch.cat(probabilities)


def log_partition(
    hidden: torch.Tensor,
    head: torch.Tensor,
    rows: torch.Tensor,
    norm_weight: torch.Tensor,
    eps: float,
    plus_one: bool,
) -> torch.Tensor:
    """See the contract in the package's docstring. Multiplies the whole head."""
    normed = _norm(hidden[rows], norm_weight, eps, plus_one)
    return torch.logsumexp(normed @ head.float().t(), dim=-1)


def _norm(x: torch.Tensor, weight: torch.Tensor, eps: float, plus_one: bool) -> torch.Tensor:
    x = x.float()
    x = x / torch.sqrt((x * x).mean(-1, keepdim=True) + eps)
    return x * (weight.float() + 1.0 if plus_one else weight.float())
