"""What reading only the label rows saves against multiplying the whole head."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import torch
import torch.nn.functional as F

from readoff.bench.gpu.cases import LABELS
from readoff.bench.gpu.clock import Clock
from readoff.engine.backbones.decoder import Backbone
from readoff.kernels.label_readout import label_readout, log_partition
from readoff.kernels.pointwise import rms_norm

READS = (1, 8, 64)


def measure(backbone: Backbone, clock: Clock) -> list[dict[str, Any]]:
    """Device time for each number of reads: the fused readout, the whole head with a softmax over
    its vocabulary, and the streamed log partition that the legal mass needs."""
    return [_measure(backbone, clock, reads) for reads in READS]


def _measure(backbone: Backbone, clock: Clock, reads: int) -> dict[str, Any]:
    head, norm, eps = backbone.head, backbone.norm, backbone.config.rms_norm_eps
    plus_one, device = backbone.traits.plus_one, head.device
    hidden = torch.randn(reads, head.shape[1], device=device).to(head.dtype)
    rows = torch.arange(reads, device=device)
    labels = torch.arange(LABELS, device=device).repeat(reads)
    offsets = torch.arange(0, LABELS * reads + 1, LABELS, device=device)
    prior = torch.zeros(LABELS * reads, device=device)
    temperature = torch.ones(reads, device=device)

    def fused() -> object:
        return label_readout(
            hidden, head, rows, norm, eps, plus_one, offsets, labels, prior, temperature
        )

    def whole() -> object:
        logits = F.linear(rms_norm(hidden, norm, eps, plus_one), head)
        return logits.float().softmax(-1)[:, :LABELS]

    def partition() -> object:
        return log_partition(hidden, head, rows, norm, eps, plus_one)

    found = {
        "label_readout": clock.captured(fused),
        "whole_head": clock.captured(whole),
        "log_partition": clock.captured(partition),
    }
    return {
        "reads": reads,
        "labels": LABELS,
        "ms": {name: asdict(spread) for name, spread in found.items()},
        "saved_us": (found["whole_head"].p50 - found["label_readout"].p50) * 1e3,
        "speedup": found["whole_head"].p50 / found["label_readout"].p50,
        "bytes_not_read": (head.shape[0] - LABELS) * head.shape[1] * head.element_size(),
    }
