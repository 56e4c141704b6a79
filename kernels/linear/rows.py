"""Rows of activations to 8 bits as a Triton kernel: one read, one write, a scale for each row."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from readoff.kernels.linear.quantised import LARGEST, SMALLEST_ROW, STORED, Kind
from readoff.kernels.specimens import Specimen

TO_NEAREST = tl.constexpr(12582912.0)
"""1.5 * 2^23: added to and taken from a small number, it leaves the nearest whole one, ties to
even. Only multiplications are ever fused into additions, never additions undone."""


@triton.jit
def quantise_row(
    x,
    values,
    scales,
    K: tl.constexpr,
    X_ROW: tl.constexpr,
    LARGEST: tl.constexpr,
    SMALLEST: tl.constexpr,
    WHOLE: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """One row; grid (T,). `WHOLE`: round to whole numbers first (int8)."""
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BLOCK)
    inside = column < K
    value = tl.load(x + row * X_ROW + column, mask=inside, other=0.0).to(tl.float32)
    largest = tl.maximum(tl.max(tl.abs(value), axis=0), SMALLEST)
    value *= tl.div_rn(LARGEST, largest)
    if WHOLE:
        value = (value + TO_NEAREST) - TO_NEAREST
    value = tl.minimum(tl.maximum(value, -LARGEST), LARGEST)
    tl.store(values + row * K + column, value.to(values.dtype.element_ty), mask=inside)
    tl.store(scales + row, tl.div_rn(largest, LARGEST))


def quantise_rows(x: torch.Tensor, kind: Kind) -> tuple[torch.Tensor, torch.Tensor]:
    """[T, K] floating -> ([T, K] in the stored dtype, [T] fp32 scales)."""
    tokens, width = x.shape
    values = torch.empty(tokens, width, dtype=STORED[kind], device=x.device)  # [T, K]
    scales = torch.empty(tokens, dtype=torch.float32, device=x.device)  # [T]
    if tokens:
        block, warps = _row(width)
        quantise_row[(tokens,)](
            *(x, values, scales),
            X_ROW=x.stride(0),
            **_constants(width, kind),
            BLOCK=block,
            num_warps=warps,
            num_stages=1,
        )
    return values, scales


def _constants(width: int, kind: Kind) -> dict[str, object]:
    return {
        "K": width,
        "LARGEST": LARGEST[kind],
        "SMALLEST": SMALLEST_ROW,
        "WHOLE": kind == "int8",
    }


def _row(width: int) -> tuple[int, int]:
    """(width padded to a power of 2, warps): 16 bytes of bf16 a thread, 8 warps at most."""
    block = triton.next_power_of_2(width)
    return block, min(8, max(1, block // 256))


def specimens() -> list[Specimen]:
    """Every width that a linear layer of the four models takes."""
    made = []
    kinds: tuple[tuple[Kind, str, int], ...] = (("int8", "i8", 80), ("fp8", "fp8e4nv", 89))
    for kind, stored, minimum in kinds:
        for dtype, widths in (("bf16", (896, 1024, 2560, 4864, 9216)), ("fp16", (1024,))):
            for width in widths:
                block, warps = _row(width)
                made.append(
                    Specimen(
                        f"linear.quantise_row[{kind}, {dtype}, K={width}]",
                        quantise_row,
                        {"x": f"*{dtype}", "values": f"*{stored}", "scales": "*fp32"},
                        {**_constants(width, kind), "X_ROW": width, "BLOCK": block},
                        num_warps=warps,
                        num_stages=1,
                        minimum=minimum,
                    )
                )
    return made
