"""SwiGLU and the attention's output gate as Triton kernels: each element read and written once."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from readoff.kernels.specimens import Specimen

BLOCK = 1024
"""Columns of a program: with 4 warps, 16 bytes of bf16 a thread."""


@triton.jit
def gate_up_row(gate_up, out, SIZE: tl.constexpr, ROW: tl.constexpr, BLOCK: tl.constexpr):
    """BLOCK columns of one row; grid (T, column blocks)."""
    row = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = column < SIZE
    source = gate_up + row * ROW
    gate = tl.load(source + column, mask=inside, other=0.0).to(tl.float32)
    up = tl.load(source + SIZE + column, mask=inside, other=0.0).to(tl.float32)
    value = gate * tl.sigmoid(gate) * up
    tl.store(out + row * SIZE + column, value.to(out.dtype.element_ty), mask=inside)


@triton.jit
def gate_row(
    x,
    gate,
    out,
    SIZE: tl.constexpr,
    D: tl.constexpr,
    X_ROW: tl.constexpr,
    X_HEAD: tl.constexpr,
    GATE_ROW: tl.constexpr,
    GATE_HEAD: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """BLOCK columns of one row, its heads one after another; grid (T, column blocks)."""
    row = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = column < SIZE
    head, place = column // D, column % D
    value = tl.load(x + row * X_ROW + (head * X_HEAD + place), mask=inside, other=0.0)
    opened = tl.load(gate + row * GATE_ROW + (head * GATE_HEAD + place), mask=inside, other=0.0)
    result = value.to(tl.float32) * tl.sigmoid(opened.to(tl.float32))
    tl.store(out + row * SIZE + column, result.to(out.dtype.element_ty), mask=inside)


def swiglu(gate_up: torch.Tensor, size: int) -> torch.Tensor:
    """See the operator."""
    tokens = len(gate_up)
    out = torch.empty((tokens, size), dtype=gate_up.dtype, device=gate_up.device)  # [T, I]
    gate_up_row[(tokens, triton.cdiv(size, BLOCK))](
        gate_up, out, SIZE=size, ROW=gate_up.stride(0), BLOCK=BLOCK, num_warps=4, num_stages=1
    )
    return out


def sigmoid_gate(x: torch.Tensor, gate: torch.Tensor) -> torch.Tensor:
    """See the operator."""
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)  # [T, K] or [T, H, D]
    dim = x.shape[-1]
    size = dim * (x.shape[1] if x.ndim == 3 else 1)
    gate_row[(len(x), triton.cdiv(size, BLOCK))](
        *(x, gate, out),
        SIZE=size,
        D=dim,
        X_ROW=x.stride(0),
        X_HEAD=x.stride(1) if x.ndim == 3 else 0,
        GATE_ROW=gate.stride(0),
        GATE_HEAD=gate.stride(1) if x.ndim == 3 else 0,
        BLOCK=BLOCK,
        num_warps=4,
        num_stages=1,
    )
    return out


def specimens() -> list[Specimen]:
    """SwiGLU at the MLP widths; the output gate of 8 and 16 heads, flat and as a slice of heads.

    fp16 is laid out like bf16, and fp32 takes fewer registers than the norms do.
    """
    made = [
        Specimen(
            f"swiglu.gate_up_row[bf16, I={size}]",
            gate_up_row,
            {"gate_up": "*bf16", "out": "*bf16"},
            {"SIZE": size, "ROW": 2 * size, "BLOCK": BLOCK},
            num_warps=4,
            num_stages=1,
        )
        for size in (3072, 3584, 4864, 9216)
    ]
    for heads in (8, 16):
        flat = {"D": heads * 256, "X_HEAD": 0, "GATE_ROW": heads * 256, "GATE_HEAD": 0}
        # The gate as it comes: every other 256 features of the fused projection.
        sliced = {"D": 256, "X_HEAD": 256, "GATE_ROW": heads * 512 + 1024, "GATE_HEAD": 512}
        made += [
            Specimen(
                f"sigmoid_gate.gate_row[bf16, {heads} x 256, {form}]",
                gate_row,
                dict.fromkeys(("x", "gate", "out"), "*bf16"),
                {"SIZE": heads * 256, "X_ROW": heads * 256, "BLOCK": BLOCK, **sizes},
                num_warps=4,
                num_stages=1,
            )
            for form, sizes in (("flat", flat), ("heads", sliced))
        ]
    return made
