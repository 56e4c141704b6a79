"""Naive fp32 readout, question by question."""

from __future__ import annotations

import torch

from readoff.kernels.label_readout.reading import Reading


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
    """See the contract in the package's docstring."""
    none = torch.zeros(0, device=hidden.device)
    logits, probabilities = [none], [none]
    best = torch.zeros(len(rows), dtype=torch.int64, device=hidden.device)
    confidence, expected = none.new_zeros(len(rows)), none.new_zeros(len(rows))
    for i, row in enumerate(rows.tolist()):
        labels = slice(int(label_offsets[i]), int(label_offsets[i + 1]))
        if labels.start == labels.stop:
            continue
        z = head[label_ids[labels]].float() @ _norm(hidden[row], norm_weight, eps, plus_one)
        p = torch.softmax((z - prior[labels]) / temperature[i], dim=0)
        logits.append(z)
        probabilities.append(p)
        best[i] = p.argmax()
        levels = torch.arange(len(p), device=p.device)
        expected[i] = (levels * p).sum()
        if len(p) == 1:
            confidence[i] = 1.0
        elif ordinal is not None and ordinal[i]:
            middle = (len(p) - 1) / 2
            spread = (p * (levels - best[i]).abs()).sum() / (levels - middle).abs().mean()
            confidence[i] = (1.0 - spread).clamp(0.0, 1.0)
        else:
            confidence[i] = ((len(p) * p.max() - 1) / (len(p) - 1)).clamp(0.0, 1.0)
    return Reading(torch.cat(logits), torch.cat(probabilities), best, confidence, expected)


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
