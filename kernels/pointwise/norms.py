"""RMS norms as Triton kernels: one read, one write, fp32 between."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from readoff.kernels.specimens import Specimen

HEADS = 16
"""Heads of one token that a program norms."""


@triton.jit
def norm_row(
    x,
    residual,
    weight,
    out,
    total,
    eps,
    H: tl.constexpr,
    X_ROW: tl.constexpr,
    RESIDUAL_ROW: tl.constexpr,
    PLUS_ONE: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """One row; grid (T,). With a `residual` the sum is rounded and kept before it is normed."""
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BLOCK)
    inside = column < H
    value = tl.load(x + row * X_ROW + column, mask=inside, other=0.0).to(tl.float32)
    if residual is not None:
        value += tl.load(residual + row * RESIDUAL_ROW + column, mask=inside, other=0.0)
        rounded = value.to(total.dtype.element_ty)
        tl.store(total + row * H + column, rounded, mask=inside)
        value = rounded.to(tl.float32)
    scale = tl.load(weight + column, mask=inside, other=0.0).to(tl.float32)
    if PLUS_ONE:
        scale += 1.0
    value *= scale / tl.sqrt(tl.sum(value * value, axis=0) / H + eps)
    tl.store(out + row * H + column, value.to(out.dtype.element_ty), mask=inside)


@triton.jit
def norm_gated_heads(
    x,
    z,
    weight,
    out,
    eps,
    COUNT: tl.constexpr,
    D: tl.constexpr,
    X_ROW: tl.constexpr,
    X_HEAD: tl.constexpr,
    Z_ROW: tl.constexpr,
    Z_HEAD: tl.constexpr,
    HEADS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """HEADS heads of one token; grid (T, head groups)."""
    row = tl.program_id(0).to(tl.int64)
    head = (tl.program_id(1) * HEADS + tl.arange(0, HEADS))[:, None]
    column = tl.arange(0, BLOCK)[None, :]
    inside = (head < COUNT) & (column < D)
    value = tl.load(x + row * X_ROW + (head * X_HEAD + column), mask=inside, other=0.0)
    gate = tl.load(z + row * Z_ROW + (head * Z_HEAD + column), mask=inside, other=0.0)
    scale = tl.load(weight + column, mask=column < D, other=0.0).to(tl.float32)
    value, gate = value.to(tl.float32), gate.to(tl.float32)
    square = tl.sum(value * value, axis=1)[:, None] / D
    value = value * (scale / tl.sqrt(square + eps)) * (gate * tl.sigmoid(gate))
    at = out + row * (COUNT * D) + (head * D + column)
    tl.store(at, value.to(out.dtype.element_ty), mask=inside)


def rms_norm(x: torch.Tensor, weight: torch.Tensor, eps: float, plus_one: bool) -> torch.Tensor:
    """See the operator."""
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)  # [T, H]
    _norm(x, None, weight, out, None, eps, plus_one)
    return out


def add_rms_norm(
    x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, eps: float, plus_one: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    """See the operator."""
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)  # [T, H]
    total = torch.empty_like(out)  # [T, H]
    _norm(x, residual, weight, out, total, eps, plus_one)
    return out, total


def _norm(
    x: torch.Tensor,
    residual: torch.Tensor | None,
    weight: torch.Tensor,
    out: torch.Tensor,
    total: torch.Tensor | None,
    eps: float,
    plus_one: bool,
) -> None:
    tokens, width = x.shape
    block, warps = _row(width)
    norm_row[(tokens,)](
        *(x, residual, weight, out, total, eps),
        H=width,
        X_ROW=x.stride(0),
        RESIDUAL_ROW=0 if residual is None else residual.stride(0),
        PLUS_ONE=plus_one,
        BLOCK=block,
        num_warps=warps,
        num_stages=1,
    )


def gated_rms_norm(
    x: torch.Tensor, z: torch.Tensor, weight: torch.Tensor, eps: float
) -> torch.Tensor:
    """See the operator."""
    tokens, heads, dim = x.shape
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)  # [T, H, D]
    norm_gated_heads[(tokens, triton.cdiv(heads, HEADS))](
        *(x, z, weight, out, eps),
        COUNT=heads,
        D=dim,
        X_ROW=x.stride(0),
        X_HEAD=x.stride(1),
        Z_ROW=z.stride(0),
        Z_HEAD=z.stride(1),
        HEADS=HEADS,
        BLOCK=triton.next_power_of_2(dim),
        num_warps=4,
        num_stages=1,
    )
    return out


def _row(width: int) -> tuple[int, int]:
    """(width padded to a power of 2, warps): 16 bytes of bf16 a thread, 8 warps at most."""
    block = triton.next_power_of_2(width)
    return block, min(8, max(1, block // 256))


def specimens() -> list[Specimen]:
    """Norms with and without residual at the hidden sizes, the gated one at 16 and 32 heads.

    fp16 is laid out like bf16. fp32 is there for the widest.
    """
    made = []
    for dtype, width in (("bf16", 896), ("bf16", 1024), ("bf16", 2560), ("fp32", 2560)):
        block, warps = _row(width)
        floats = dict.fromkeys(("x", "weight", "out"), f"*{dtype}")
        sizes = {"H": width, "X_ROW": width, "PLUS_ONE": True, "BLOCK": block}
        none = {"RESIDUAL_ROW": 0, "residual": None, "total": None}
        both = dict.fromkeys(("residual", "total"), f"*{dtype}")
        made += [
            Specimen(
                f"{name}.norm_row[{dtype}, H={width}]",
                norm_row,
                {**floats, **signature, "eps": "fp32"},
                {**sizes, **constants},
                num_warps=warps,
                num_stages=1,
            )
            for name, signature, constants in (
                ("rms_norm", {}, none),
                ("add_rms_norm", both, {"RESIDUAL_ROW": width}),
            )
        ]
    for dtype, heads in (("bf16", 16), ("bf16", 32), ("fp32", 32)):
        made.append(
            Specimen(
                f"gated_rms_norm.norm_gated_heads[{dtype}, heads={heads}]",
                norm_gated_heads,
                {**dict.fromkeys(("x", "z", "weight", "out"), f"*{dtype}"), "eps": "fp32"},
                {
                    "COUNT": heads,
                    "D": 128,
                    "X_ROW": heads * 128,
                    "X_HEAD": 128,
                    # z is a slice of the fused projection: q, k, v, z, b, a.
                    "Z_ROW": (2 * 16 + 2 * heads) * 128 + 2 * heads,
                    "Z_HEAD": 128,
                    "HEADS": HEADS,
                    "BLOCK": 128,
                },
                num_warps=4,
                num_stages=1,
            )
        )
    return made
