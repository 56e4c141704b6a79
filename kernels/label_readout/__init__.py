"""The readout: logits and probabilities of the legal labels at the rows that are read.

p = softmax((z - prior) / T) over the labels of one question, z = norm(hidden[row]) · head[label].

Contract of every implementation:
    hidden: [T, H], before the final norm; head: [vocab, H], of the same dtype; rows: [N] int64,
        one a question. Rows of hidden and head may be strided, their elements are adjacent.
    norm_weight: [H]; eps; plus_one: the norm multiplies by 1 + w (Qwen3.5) instead of w.
    label_offsets: [N + 1] int64 and label_ids: [L] int64: the labels of question i, 255 at most,
        are label_ids[label_offsets[i]:label_offsets[i + 1]].
    prior: [L] fp32, in raw logits; temperature: [N] fp32, > 0.
    ordinal: [N] bool or None: questions whose labels are levels of a scale.
    Returns a `Reading`; all arithmetic is fp32. Confidence, with n labels: (n·max p - 1) / (n - 1);
    for an ordinal question max(0, 1 - Σ pᵢ|i - k| / D), k the best label and
    D = (1/n) Σ |i - (n - 1)/2|; 1 where n = 1. Where logits aren't finite the question's
    probabilities are NaN, and its best label is any of its own.

A question without labels (padding) has best, confidence and expected 0; its row must exist, its
temperature means nothing. Label slots from label_offsets[N] on are padding too: only "triton",
which never looks at them, may be given any, and it leaves their results unwritten.

`log_partition` is the log of the full vocabulary's softmax denominator at T = 1 without prior,
[N] fp32, streamed over blocks of the head. exp(logsumexp(logits) - log_partition) is the legal
mass. Factors are fp32 or, in "triton" with a narrow head, the normed rows as a sum of two numbers
of the head's dtype: 16 bits of mantissa at least.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar, cast

import torch

from readoff.kernels import triton_support
from readoff.kernels.dispatch import Implementation, Op, always, by_name_on_cpu
from readoff.kernels.label_readout import checks, cpu, fixed
from readoff.kernels.label_readout import reference as naive
from readoff.kernels.label_readout.reading import Reading

__all__ = ["Reading", "label_readout", "log_partition"]

_T = torch.Tensor
P = ParamSpec("P")
R = TypeVar("R")


def _like(function: Callable[P, R], made: Implementation[..., Any]) -> Implementation[P, R]:
    """`made` with the signature of `function`, whose last argument may be left out."""
    return cast("Implementation[P, R]", made)


label_readout = Op(
    "label_readout",
    [
        _like(
            cpu.label_readout,
            triton_support.implementation(
                "label_readout.triton", "label_readout", "one program a question, one launch"
            ),
        ),
        Implementation("torch", cpu.label_readout, always("label rows gathered, one product")),
        by_name_on_cpu(fixed.label_readout, "question by question"),
        Implementation("reference", naive.label_readout, always("fp32, question by question")),
    ],
    checks.label_readout,
    checks.label_readout_values,
)

log_partition: Op[[_T, _T, _T, _T, float, bool], _T] = Op(
    "log_partition",
    [
        triton_support.implementation(
            "label_readout.triton", "log_partition", "a program for every 128 rows of the head"
        ),
        Implementation("torch", cpu.log_partition, always("streamed over blocks of the head")),
        by_name_on_cpu(fixed.log_partition, "question by question"),
        Implementation("reference", naive.log_partition, always("fp32, whole head")),
    ],
    checks.log_partition,
    checks.log_partition_values,
)
