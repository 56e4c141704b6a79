"""The readout: logits and probabilities of the legal labels at the rows that are read.

p = softmax((z - prior) / T) over the labels of one question, z = norm(hidden[row]) · head[label].

Contract of every implementation:
    hidden: [T, H], before the final norm; head: [vocab, H]; rows: [N] int64, one a question.
    norm_weight: [H]; eps; plus_one: the norm multiplies by 1 + w (Qwen3.5) instead of w.
    label_offsets: [N + 1] int64 and label_ids: [L] int64: the labels of question i are
        label_ids[label_offsets[i]:label_offsets[i + 1]].
    prior: [L] fp32, in raw logits; temperature: [N] fp32, > 0.
    Returns (logits [L] raw, probabilities [L]), both fp32; all arithmetic is fp32.

`log_partition` is the log of the full vocabulary's softmax denominator at T = 1 without prior,
[N] fp32, streamed over blocks of the head. exp(logsumexp(logits) - log_partition) is the legal
mass.
"""

from __future__ import annotations

import torch

from readoff.kernels.dispatch import Implementation, Op, always
from readoff.kernels.label_readout import cpu
from readoff.kernels.label_readout import reference as naive

__all__ = ["label_readout", "log_partition"]

_T = torch.Tensor

label_readout: Op[[_T, _T, _T, _T, float, bool, _T, _T, _T, _T], tuple[_T, _T]] = Op(
    "label_readout",
    [
        Implementation("torch", cpu.label_readout, always("label rows gathered, one product")),
        Implementation("reference", naive.label_readout, always("fp32, question by question")),
    ],
)

log_partition: Op[[_T, _T, _T, _T, float, bool], _T] = Op(
    "log_partition",
    [
        Implementation("torch", cpu.log_partition, always("streamed over blocks of the head")),
        Implementation("reference", naive.log_partition, always("fp32, whole head")),
    ],
)
