"""The readout as Triton kernels: everything about a question in one program."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from readoff.kernels.label_readout import partition
from readoff.kernels.label_readout.partition import log_partition
from readoff.kernels.label_readout.reading import Reading
from readoff.kernels.specimens import Specimen

__all__ = ["label_readout", "log_partition", "specimens"]

LABELS = 256
"""Places for the labels of one question."""


@triton.jit(
    do_not_specialize_on_alignment=[
        "rows",
        "label_offsets",
        "label_ids",
        "prior",
        "temperature",
        "ordinal",
    ]
)
def read_labels(
    hidden,
    head,
    rows,
    norm_weight,
    label_offsets,
    label_ids,
    prior,
    temperature,
    ordinal,
    logits,
    probabilities,
    best,
    confidence,
    expected,
    eps,
    H: tl.constexpr,
    HIDDEN_ROW: tl.constexpr,
    HEAD_ROW: tl.constexpr,
    PLUS_ONE: tl.constexpr,
    LABELS: tl.constexpr,
    BLOCK_L: tl.constexpr,
    BLOCK_H: tl.constexpr,
):
    """One question; grid (N,).

    The normed row stays in registers while the label rows go by, BLOCK_L at a time. Their logits
    collect in a small table, so that softmax, mode and confidences need no second pass.
    """
    question = tl.program_id(0)
    first = tl.load(label_offsets + question)
    n = (tl.load(label_offsets + question + 1) - first).to(tl.int32)
    if n > 0:
        column = tl.arange(0, BLOCK_H)
        inside = column < H
        row = tl.load(rows + question)
        x = tl.load(hidden + row * HIDDEN_ROW + column, mask=inside, other=0.0).to(tl.float32)
        weight = tl.load(norm_weight + column, mask=inside, other=0.0).to(tl.float32)
        if PLUS_ONE:
            weight += 1.0
        x *= weight / tl.sqrt(tl.sum(x * x, axis=0) / H + eps)  # [BLOCK_H]

        block = tl.arange(0, LABELS // BLOCK_L)[:, None]
        place = block * BLOCK_L + tl.arange(0, BLOCK_L)[None, :]
        real = place < n
        shift = tl.load(prior + first + place, mask=real, other=0.0)
        scale = tl.load(temperature + question)

        z = tl.zeros([LABELS // BLOCK_L, BLOCK_L], tl.float32)
        lane = tl.arange(0, BLOCK_L)
        label = tl.load(label_ids + first + lane, mask=lane < n, other=0)
        for start in range(0, n, BLOCK_L):
            wanted = start + lane < n
            source = (head + label * HEAD_ROW)[:, None] + column[None, :]
            rows_of_head = tl.load(source, mask=wanted[:, None] & inside[None, :], other=0.0)
            # Asked for here, the next ids arrive while this block is still on its way.
            coming = start + BLOCK_L + lane
            label = tl.load(label_ids + first + coming, mask=coming < n, other=0)
            dots = tl.sum(rows_of_head.to(tl.float32) * x[None, :], axis=1)  # [BLOCK_L]
            z = tl.where(block * BLOCK_L == start, dots[None, :], z)

        scaled = tl.where(real, (z - shift) / scale, float("-inf"))
        e = tl.exp(scaled - tl.max(tl.max(scaled, axis=1), axis=0))
        p = e / tl.sum(tl.sum(e, axis=1), axis=0)
        peak = tl.max(tl.max(p, axis=1), axis=0)
        mode = tl.min(tl.min(tl.where(real & (p == peak), place, LABELS), axis=1), axis=0)
        mode = tl.minimum(mode, n - 1)  # NaN equals nothing

        count = n.to(tl.float32)
        sure = (count * peak - 1.0) / tl.maximum(count - 1.0, 1.0)
        if ordinal is not None:
            away = tl.abs(place - mode).to(tl.float32)
            spread = tl.sum(tl.sum(p * away, axis=1), axis=0)
            # Σ |i - (n - 1)/2| is the whole part of n²/4.
            near = 1.0 - spread * count / tl.maximum(n * n // 4, 1).to(tl.float32)
            sure = tl.where(tl.load(ordinal + question), near, sure)
        sure = tl.where(n == 1, 1.0, tl.minimum(tl.maximum(sure, 0.0), 1.0))
        level = tl.sum(tl.sum(p * place.to(tl.float32), axis=1), axis=0)

        tl.store(logits + first + place, z, mask=real)
        tl.store(probabilities + first + place, p, mask=real)
        tl.store(best + question, mode.to(tl.int64))
        tl.store(confidence + question, sure)
        tl.store(expected + question, level)
    else:
        tl.store(best + question, 0)
        tl.store(confidence + question, 0.0)
        tl.store(expected + question, 0.0)


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
    """See the contract in the package's docstring. One launch."""
    questions, labels, width = len(rows), len(label_ids), hidden.shape[1]
    reading = Reading(
        logits=torch.empty(labels, dtype=torch.float32, device=hidden.device),
        probabilities=torch.empty(labels, dtype=torch.float32, device=hidden.device),
        best=torch.empty(questions, dtype=torch.int64, device=hidden.device),
        confidence=torch.empty(questions, dtype=torch.float32, device=hidden.device),
        expected=torch.empty(questions, dtype=torch.float32, device=hidden.device),
    )
    if not questions:
        return reading
    block_l, block_h, warps = _blocks(width, head.element_size(), labels / questions)
    read_labels[(questions,)](
        *(hidden, head, rows, norm_weight, label_offsets, label_ids, prior, temperature, ordinal),
        *reading,
        eps,
        H=width,
        HIDDEN_ROW=hidden.stride(0),
        HEAD_ROW=head.stride(0),
        PLUS_ONE=plus_one,
        LABELS=LABELS,
        BLOCK_L=block_l,
        BLOCK_H=block_h,
        num_warps=warps,
        num_stages=1,
    )
    return reading


def _blocks(width: int, element_size: int, labels: float) -> tuple[int, int, int]:
    """(labels at a time, hidden padded to a power of 2, warps).

    A program reads alone what its question needs, so bytes under way decide: each thread loads 16
    bytes of every row of a block, and a block is as large as an average question, within the 64
    registers that 16 such loads fill.
    """
    block_h = max(16, triton.next_power_of_2(width))
    warps = min(16, max(1, block_h // (32 * 8)))
    most = 32 // element_size
    block_l = min(most, max(4, triton.next_power_of_2(round(labels))))
    return block_l, block_h, warps


def specimens() -> list[Specimen]:
    """Both readouts at the hidden sizes of the models, few labels and many.

    fp16 is laid out like bf16. fp32 is there for the widest, which takes the most registers.
    """
    shapes = [("bf16", 2, w, n) for w in (896, 1024, 2560) for n in (2, 255)]
    made = []
    for dtype, size, width, labels in [*shapes, ("fp32", 4, 2560, 255)]:
        block_l, block_h, warps = _blocks(width, size, labels)
        made.append(
            Specimen(
                f"label_readout.read_labels[{dtype}, H={width}, labels={labels}]",
                read_labels,
                {
                    **dict.fromkeys(("hidden", "head", "norm_weight"), f"*{dtype}"),
                    **dict.fromkeys(("rows", "label_offsets", "label_ids", "best"), "*i64"),
                    **dict.fromkeys(("prior", "temperature"), "*fp32"),
                    **dict.fromkeys(("logits", "probabilities"), "*fp32"),
                    **dict.fromkeys(("confidence", "expected"), "*fp32"),
                    "ordinal": "*i1",
                    "eps": "fp32",
                },
                {
                    "H": width,
                    "HIDDEN_ROW": width,
                    "HEAD_ROW": width,
                    "PLUS_ONE": True,
                    "LABELS": LABELS,
                    "BLOCK_L": block_l,
                    "BLOCK_H": block_h,
                },
                num_warps=warps,
                num_stages=1,
            )
        )
    return made + partition.specimens()
