"""The readout question by question: its bits don't depend on the other questions."""

from __future__ import annotations

import torch

from readoff.kernels.label_readout import cpu
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
    offsets = label_offsets.tolist()
    read = []
    for i in range(len(rows)):
        labels = slice(offsets[i], offsets[i + 1])
        read.append(
            cpu.label_readout(
                hidden,
                head,
                rows[i : i + 1],
                norm_weight,
                eps,
                plus_one,
                label_offsets.new_tensor([0, offsets[i + 1] - offsets[i]]),
                label_ids[labels],
                prior[labels],
                temperature[i : i + 1],
                None if ordinal is None else ordinal[i : i + 1],
            )
        )
    if not read:
        none = hidden.new_empty(0, dtype=torch.float32)
        return Reading(none, none, rows, none, none)
    return Reading(*(torch.cat(parts) for parts in zip(*read, strict=True)))


def log_partition(
    hidden: torch.Tensor,
    head: torch.Tensor,
    rows: torch.Tensor,
    norm_weight: torch.Tensor,
    eps: float,
    plus_one: bool,
) -> torch.Tensor:
    """See the contract in the package's docstring. Reads the head once a question."""
    parts = [
        cpu.log_partition(hidden, head, rows[i : i + 1], norm_weight, eps, plus_one)
        for i in range(len(rows))
    ]
    return torch.cat(parts) if parts else hidden.new_empty(0, dtype=torch.float32)
