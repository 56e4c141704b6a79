"""`Reading`: what the readout tells of the questions of a batch."""

from __future__ import annotations

from typing import NamedTuple

import torch


class Reading(NamedTuple):
    """Labels in the CSR order of the call, levels counted from 0 within each question.

    `logits` [L] fp32, raw; `probabilities` [L] fp32; `best` [N] int64, the first of the most
    probable labels; `confidence` [N] fp32; `expected` [N] fp32, the mean level Σ i·pᵢ.
    """

    logits: torch.Tensor
    probabilities: torch.Tensor
    best: torch.Tensor
    confidence: torch.Tensor
    expected: torch.Tensor
