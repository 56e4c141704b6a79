"""The full vocabulary's log-sum-exp as Triton kernels: the head is read once, logits never kept.

Three launches: normed rows, a maximum and a sum for every 128 rows of the head, and their union
(the split softmax of Milakov & Gimelshein 2018). A narrow head multiplies the rows as two numbers
of its dtype, x = high + low, so that their rounding doesn't show beside fp32 label logits.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from readoff.kernels.specimens import Specimen

BLOCK_V = 128
"""Rows of the head that one program multiplies."""


@triton.jit(do_not_specialize_on_alignment=["rows"])
def norm_parts(
    hidden,
    rows,
    norm_weight,
    high,
    low,
    eps,
    H: tl.constexpr,
    HIDDEN_ROW: tl.constexpr,
    PLUS_ONE: tl.constexpr,
    BLOCK_H: tl.constexpr,
):
    """One row normed and split; grid (N,). Without `low` (an fp32 head) it isn't split."""
    question = tl.program_id(0)
    column = tl.arange(0, BLOCK_H)
    inside = column < H
    source = hidden + tl.load(rows + question) * HIDDEN_ROW
    x = tl.load(source + column, mask=inside, other=0.0).to(tl.float32)
    weight = tl.load(norm_weight + column, mask=inside, other=0.0).to(tl.float32)
    if PLUS_ONE:
        weight += 1.0
    x *= weight / tl.sqrt(tl.sum(x * x, axis=0) / H + eps)
    rounded = x.to(high.dtype.element_ty)
    at = question.to(tl.int64) * H + column
    tl.store(high + at, rounded, mask=inside)
    if low is not None:
        tl.store(low + at, (x - rounded.to(tl.float32)).to(low.dtype.element_ty), mask=inside)


@triton.jit(do_not_specialize=["questions"])
def partial_sums(
    high,
    low,
    head,
    tops,
    sums,
    questions,
    vocab,
    H: tl.constexpr,
    HEAD_ROW: tl.constexpr,
    BLOCK_Q: tl.constexpr,
    BLOCK_V: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    """BLOCK_V rows of the head times BLOCK_Q normed rows; grid (question tiles, vocabulary tiles).

    Question tiles of the same rows run side by side, so the second finds the rows in L2. Rows and
    questions beyond the last are read as the last, and masked or not stored.
    """
    tile = tl.program_id(1)
    question = tl.program_id(0) * BLOCK_Q + tl.arange(0, BLOCK_Q)
    asked = tl.minimum(question, questions - 1) * H
    row = tl.arange(0, BLOCK_V)
    left = vocab - tile * BLOCK_V
    base = head + tile.to(tl.int64) * (BLOCK_V * HEAD_ROW)
    line = tl.minimum(row, left - 1) * HEAD_ROW
    k = tl.arange(0, BLOCK_K)
    z = tl.zeros([BLOCK_V, BLOCK_Q], tl.float32)
    for start in range(0, H, BLOCK_K):
        at = start + k
        inside = at < H
        part = tl.load(base + line[:, None] + at[None, :], mask=inside[None, :], other=0.0)
        x = tl.load(high + at[:, None] + asked[None, :], mask=inside[:, None], other=0.0)
        z = tl.dot(part, x, z, input_precision="ieee")  # [BLOCK_V, BLOCK_K] · [BLOCK_K, BLOCK_Q]
        if low is not None:
            x = tl.load(low + at[:, None] + asked[None, :], mask=inside[:, None], other=0.0)
            z = tl.dot(part, x, z, input_precision="ieee")
    z = tl.where(row[:, None] < left, z, float("-inf"))
    top = tl.max(z, axis=0)  # [BLOCK_Q]
    total = tl.sum(tl.exp(z - top[None, :]), axis=0)
    out = question.to(tl.int64) * tl.num_programs(1) + tile
    tl.store(tops + out, top, mask=question < questions)
    tl.store(sums + out, total, mask=question < questions)


@triton.jit
def join_sums(tops, sums, out, tiles, BLOCK: tl.constexpr):
    """The logarithm of one question's whole sum; grid (N,)."""
    question = tl.program_id(0)
    tile = tl.arange(0, BLOCK)
    real = tile < tiles
    at = question.to(tl.int64) * tiles + tile
    top = tl.load(tops + at, mask=real, other=float("-inf"))
    total = tl.load(sums + at, mask=real, other=0.0)
    highest = tl.max(top, axis=0)
    whole = tl.sum(tl.where(real, total * tl.exp(top - highest), 0.0), axis=0)
    tl.store(out + question, tl.log(whole) + highest)


def log_partition(
    hidden: torch.Tensor,
    head: torch.Tensor,
    rows: torch.Tensor,
    norm_weight: torch.Tensor,
    eps: float,
    plus_one: bool,
) -> torch.Tensor:
    """See the contract in the package's docstring."""
    questions, (vocab, width) = len(rows), head.shape
    tiles = triton.cdiv(vocab, BLOCK_V)
    out = torch.empty(questions, dtype=torch.float32, device=hidden.device)
    if not questions:
        return out
    high = torch.empty((questions, width), dtype=head.dtype, device=hidden.device)
    low = torch.empty_like(high) if head.element_size() < 4 else None
    sums = torch.empty((2, questions, tiles), dtype=torch.float32, device=hidden.device)
    block_q, block_k = _blocks(questions, head.element_size())
    block_h, warps = _row(width)
    norm_parts[(questions,)](
        *(hidden, rows, norm_weight, high, low, eps),
        H=width,
        HIDDEN_ROW=hidden.stride(0),
        PLUS_ONE=plus_one,
        BLOCK_H=block_h,
        num_warps=warps,
        num_stages=1,
    )
    partial_sums[(triton.cdiv(questions, block_q), tiles)](
        *(high, low, head, sums[0], sums[1], questions, vocab),
        H=width,
        HEAD_ROW=head.stride(0),
        BLOCK_Q=block_q,
        BLOCK_V=BLOCK_V,
        BLOCK_K=block_k,
        num_warps=4,
        num_stages=_stages(head.element_size()),
    )
    join_sums[(questions,)](
        *(sums[0], sums[1], out, tiles),
        BLOCK=triton.next_power_of_2(tiles),
        num_warps=4,
        num_stages=1,
    )
    return out


def _stages(element_size: int) -> int:
    """Tiles loaded ahead; with three of fp32 registers spill on sm_90."""
    return 3 if element_size < 4 else 2


def _blocks(questions: int, element_size: int) -> tuple[int, int]:
    """(questions, hidden) of a tile of the product.

    128 bytes of each row at a time; as many questions as there are, up to 64, in fp32, which the
    matrix units don't take, 16 (32 spill). The stages of the largest tile fit the 99 KiB of sm_86,
    89 and 120.
    """
    most = 64 if element_size < 4 else 16
    return min(most, max(16, triton.next_power_of_2(questions))), 128 // element_size


def _row(width: int) -> tuple[int, int]:
    """(hidden padded to a power of 2, warps): 16 bytes of bf16 a thread."""
    block = max(16, triton.next_power_of_2(width))
    return block, min(8, max(1, block // 256))


def specimens() -> list[Specimen]:
    """The three kernels at the hidden sizes of the models and for 16, 32 and 64 questions.

    fp16 is laid out like bf16. fp32 is there with the largest tile.
    """
    made = []
    for dtype, width in (("bf16", 896), ("bf16", 1024), ("bf16", 2560), ("fp32", 2560)):
        block_h, warps = _row(width)
        low, none = _low(dtype)
        made.append(
            Specimen(
                f"log_partition.norm_parts[{dtype}, H={width}]",
                norm_parts,
                {
                    **dict.fromkeys(("hidden", "norm_weight", "high"), f"*{dtype}"),
                    **low,
                    "rows": "*i64",
                    "eps": "fp32",
                },
                {"H": width, "HIDDEN_ROW": width, "PLUS_ONE": True, "BLOCK_H": block_h, **none},
                num_warps=warps,
                num_stages=1,
            )
        )
    tiles = [("bf16", 1024, 16), ("bf16", 1024, 32), ("fp32", 1024, 32)]
    for dtype, width, questions in [*tiles, *(("bf16", w, 64) for w in (896, 1024, 2560))]:
        size = 4 if dtype == "fp32" else 2
        block_q, block_k = _blocks(questions, size)
        low, none = _low(dtype)
        made.append(
            Specimen(
                f"log_partition.partial_sums[{dtype}, H={width}, N={questions}]",
                partial_sums,
                {
                    **dict.fromkeys(("high", "head"), f"*{dtype}"),
                    **low,
                    **dict.fromkeys(("tops", "sums"), "*fp32"),
                    **dict.fromkeys(("questions", "vocab"), "i32"),
                },
                {
                    "H": width,
                    "HEAD_ROW": width,
                    "BLOCK_Q": block_q,
                    "BLOCK_V": BLOCK_V,
                    "BLOCK_K": block_k,
                    **none,
                },
                num_warps=4,
                num_stages=_stages(size),
            )
        )
    made.append(
        Specimen(
            "log_partition.join_sums[up to 2048 tiles]",
            join_sums,
            {**dict.fromkeys(("tops", "sums", "out"), "*fp32"), "tiles": "i32"},
            {"BLOCK": 2048},
            num_warps=4,
            num_stages=1,
        )
    )
    return made


def _low(dtype: str) -> tuple[dict[str, str], dict[str, None]]:
    """`low` for the signature, or for the constants of an fp32 head, which has none."""
    return ({}, {"low": None}) if dtype == "fp32" else ({"low": f"*{dtype}"}, {})
