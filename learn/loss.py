"""The loss of soft-label learning: cross-entropy plus λ times the Brier score.

For one question with target t, probabilities p = softmax(z) over its legal labels and weight w:

    w · [ -Σ tᵢ log pᵢ  +  λ · Σ (pᵢ - tᵢ)² ]

Both are strictly proper: over p, each has its only minimum at p = t, and so has their sum.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

LAMBDA = 0.5
"""The share of the Brier score, as published."""


@dataclass(frozen=True)
class Losses:
    """By question, [N] fp32 each, unweighted. `total` is what is trained on, without weights."""

    nll: torch.Tensor
    brier: torch.Tensor
    total: torch.Tensor


def soft_label_losses(
    logits: torch.Tensor,
    targets: torch.Tensor,
    offsets: torch.Tensor,
    brier_weight: float = LAMBDA,
) -> Losses:
    """Losses of N questions, differentiable in the logits.

    logits, targets: [L] fp32, the labels of question i at offsets[i] .. offsets[i + 1]; offsets:
    [N + 1] int64, no question empty. The targets of a question sum to 1. A target of 0 costs
    nothing in the cross-entropy however improbable its label is.
    """
    counts = offsets.diff()
    question = torch.repeat_interleave(torch.arange(len(counts), device=logits.device), counts)
    place = torch.arange(len(logits), device=logits.device) - offsets[question]
    at = (question, place)
    shape = (len(counts), int(counts.max()) if len(counts) else 0)
    # -inf only where there is no label: softmax gives 0 there, and no gradient comes back.
    grid = logits.new_full(shape, float("-inf")).index_put(at, logits)
    logp = grid.log_softmax(-1)[at]  # [L]
    zeros = logits.new_zeros(len(counts))
    nll = zeros.index_add(0, question, -targets * logp)
    brier = zeros.index_add(0, question, (logp.exp() - targets).square())
    return Losses(nll, brier, nll + brier_weight * brier)
