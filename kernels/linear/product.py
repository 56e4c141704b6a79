"""y = x Wᵀ + b as one Triton kernel: floats, or 8 bits with scales in the epilogue.

One program walks over all inputs for its tile of the result, so that the order of additions
depends on the layer's shape only: never on the number of rows, never on the row's place.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton
import triton.language as tl

from readoff.kernels.specimens import Specimen


@triton.jit(do_not_specialize=["T"])
def multiply(
    x,
    weight,
    bias,
    row_scales,
    channel_scales,
    out,
    T,
    N: tl.constexpr,
    K: tl.constexpr,
    X_ROW: tl.constexpr,
    W_ROW: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUP: tl.constexpr,
    WHOLE: tl.constexpr,
    PARTIAL: tl.constexpr,
):
    """A tile of BLOCK_M rows x BLOCK_N channels; grid (tiles,).

    Tiles of GROUP row blocks share a column block one after the other, so that the weights they
    read are still in L2. `WHOLE`: int8 operands, whole-number sums. `PARTIAL`: fp8 operands; so
    many products are added in the matrix unit, which keeps few bits, before fp32 takes over.
    """
    tile = tl.program_id(0)
    row_blocks = tl.cdiv(T, BLOCK_M)
    column_blocks: tl.constexpr = (N + BLOCK_N - 1) // BLOCK_N
    first = tile // (GROUP * column_blocks) * GROUP
    height = tl.minimum(row_blocks - first, GROUP)
    inner = tile % (GROUP * column_blocks)
    row = (first + inner % height).to(tl.int64) * BLOCK_M
    column = (inner // height).to(tl.int64) * BLOCK_N

    # What lies beyond the last row or channel is read as the last one again and never written.
    rows = tl.arange(0, BLOCK_M)
    columns = tl.arange(0, BLOCK_N)
    rows_left = (T - row).to(tl.int32)
    columns_left = (N - column).to(tl.int32)
    inputs = tl.arange(0, BLOCK_K)
    x_at = x + row * X_ROW + (tl.minimum(rows, rows_left - 1)[:, None] * X_ROW + inputs[None, :])
    w_at = (
        weight
        + column * W_ROW
        + (tl.minimum(columns, columns_left - 1)[:, None] * W_ROW + inputs[None, :])
    )
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.int32 if WHOLE else tl.float32)
    for at in range(0, K, BLOCK_K):
        if K % BLOCK_K == 0:
            a = tl.load(x_at)  # [BLOCK_M, BLOCK_K]
            b = tl.load(w_at).T  # [BLOCK_K, BLOCK_N]
        else:
            a = tl.load(x_at, mask=inputs[None, :] < K - at, other=0.0)
            b = tl.load(w_at, mask=inputs[None, :] < K - at, other=0.0).T
        if WHOLE:
            total = tl.dot(a, b, total, out_dtype=tl.int32)
        elif PARTIAL:
            total = tl.dot(a, b, total, max_num_imprecise_acc=PARTIAL)
        else:
            total = tl.dot(a, b, total, input_precision="ieee")
        x_at += BLOCK_K
        w_at += BLOCK_K

    y = total.to(tl.float32)
    inside = columns < columns_left
    if row_scales is not None:
        y *= tl.load(row_scales + row + rows, mask=rows < rows_left, other=0.0)[:, None]
        y *= tl.load(channel_scales + column + columns, mask=inside, other=0.0)[None, :]
    if bias is not None:
        y += tl.load(bias + column + columns, mask=inside, other=0.0).to(tl.float32)[None, :]
    y_at = out + row * N + column + (rows[:, None] * N + columns[None, :])
    mask = (rows[:, None] < rows_left) & inside[None, :]
    tl.store(y_at, y.to(out.dtype.element_ty), mask=mask)


@dataclass(frozen=True)
class Blocks:
    """Tile sizes of a launch. They follow from dtype and layer, never from the number of rows."""

    m: int
    n: int
    k: int
    warps: int
    stages: int
    group: int = 8


def blocks(operand: torch.dtype, channels: int) -> Blocks:
    """Three stages of 128 bytes of inputs a row: 72 KiB at most, which every target has.

    Up to 2560 channels a tile has 64 of them: 512 rows then still make 128 programs and more.
    fp32 has no matrix instructions of full precision: small tiles, whose sums fit the registers.
    """
    size = operand.itemsize
    if size == 4:
        return Blocks(32, 64, 32, 4, 2)
    return Blocks(64, 64 if channels <= 2560 else 128, 128 // size, 4, 3)


def multiply_rows(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    dtype: torch.dtype,
    scales: tuple[torch.Tensor, torch.Tensor] | None = None,
) -> torch.Tensor:
    """[T, K] x [N, K] -> [T, N] of `dtype`. `scales`: of rows [T] and channels [N], fp32."""
    tokens, width = x.shape
    channels = weight.shape[0]
    out = torch.empty(tokens, channels, dtype=dtype, device=x.device)  # [T, N]
    if tokens:
        size = blocks(x.dtype, channels)
        grid = triton.cdiv(tokens, size.m) * triton.cdiv(channels, size.n)
        row_scales, channel_scales = scales or (None, None)
        multiply[(grid,)](
            *(x, weight, bias, row_scales, channel_scales, out, tokens),
            X_ROW=x.stride(0),
            W_ROW=weight.stride(0),
            **_constants(x.dtype, channels, width, size),
            num_warps=size.warps,
            num_stages=size.stages,
        )
    return out


def _constants(operand: torch.dtype, channels: int, width: int, size: Blocks) -> dict[str, object]:
    return {
        "N": channels,
        "K": width,
        "BLOCK_M": size.m,
        "BLOCK_N": size.n,
        "BLOCK_K": size.k,
        "GROUP": size.group,
        "WHOLE": operand == torch.int8,
        "PARTIAL": size.k if operand == torch.float8_e4m3fn else 0,
    }


LAYERS = (
    ("Qwen2.5-0.5B qkv", 896, 1152, True),
    ("Qwen2.5-0.5B gate and up", 896, 9728, False),
    ("Qwen2.5-0.5B down", 4864, 896, False),
    ("Qwen3-0.6B qkv", 1024, 4096, False),
    ("Qwen3.5-0.8B gate and up", 1024, 7168, False),
    ("Qwen3.5-0.8B down", 3584, 1024, False),
    ("Qwen3.5-0.8B delta rule", 1024, 8224, False),
    ("Qwen3.5-4B gate and up", 2560, 18432, False),
    ("Qwen3.5-4B down", 9216, 2560, False),
    ("Qwen3.5-4B delta rule", 2560, 12352, False),
)
"""(layer, inputs, outputs, whether it has a bias)."""

_OPERANDS = (
    (torch.bfloat16, "bf16", "bf16", 80),
    (torch.float16, "fp16", "fp16", 80),
    (torch.float32, "fp32", "fp32", 80),
    (torch.int8, "i8", "bf16", 80),
    (torch.float8_e4m3fn, "fp8e4nv", "bf16", 89),
)


def specimens() -> list[Specimen]:
    """Layers of the four models; fp16 and fp32 at the shapes of the smallest one."""
    made = []
    for dtype, operand, result, minimum in _OPERANDS:
        few = operand in ("fp16", "fp32")
        for layer, width, channels, has_bias in LAYERS[:3] if few else LAYERS:
            size = blocks(dtype, channels)
            signature = {"x": f"*{operand}", "weight": f"*{operand}", "out": f"*{result}"}
            constants = {
                **_constants(dtype, channels, width, size),
                "X_ROW": width,
                "W_ROW": width,
            }
            optional = {"bias": f"*{result}"} if has_bias else {}
            if dtype.itemsize == 1:
                optional |= {"row_scales": "*fp32", "channel_scales": "*fp32"}
            for name in ("bias", "row_scales", "channel_scales"):
                if name not in optional:
                    constants[name] = None
            made.append(
                Specimen(
                    f"linear.multiply[{operand}, {layer}]",
                    multiply,
                    {**signature, **optional, "T": "i32"},
                    constants,
                    num_warps=size.warps,
                    num_stages=size.stages,
                    minimum=minimum,
                )
            )
    return made
