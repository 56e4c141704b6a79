"""Small Triton kernels that show what the compiler's report can see. Imported by its workers."""

from __future__ import annotations

import triton
import triton.language as tl

from readoff.kernels.specimens import Specimen


@triton.jit
def product(a, b, c, steps, stride, K: tl.constexpr, ROWS: tl.constexpr):
    """c = a · b for one tile: loads along rows K apart, or `stride` where K is 0."""
    width = stride if K == 0 else K
    row = tl.arange(0, ROWS)
    inner = tl.arange(0, 64)
    total = tl.zeros((ROWS, ROWS), tl.float32)
    for step in range(steps):
        left = tl.load(a + row[:, None] * width + step * 64 + inner[None, :])
        right = tl.load(b + (step * 64 + inner)[:, None] * width + row[None, :])
        total = tl.dot(left, right, total)
    tl.store(c + row[:, None] * width + row[None, :], total.to(tl.bfloat16))


@triton.jit
def double(x, y, size, BLOCK: tl.constexpr):
    """y = 2 x, without a loop."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, 2 * tl.load(x + at, mask=at < size), mask=at < size)


def _product(name: str, rows: int, stages: int, warps: int, k: int = 1024) -> Specimen:
    pointers = {"a": "*bf16", "b": "*bf16", "c": "*bf16"}
    signature = pointers | {"steps": "i32", "stride": "i32"}
    constants = {"K": k, "ROWS": rows}
    return Specimen(name, product, signature, constants, num_warps=warps, num_stages=stages)


def specimens() -> list[Specimen]:
    """A good one, three bad ones, one without a loop, one that is wrong, one for new devices."""
    double_of = {"x": "*fp32", "y": "*fp32", "size": "i32"}
    return [
        _product("toy.good", rows=64, stages=2, warps=4),
        _product("toy.strided", rows=64, stages=2, warps=4, k=0),
        _product("toy.large", rows=128, stages=5, warps=8),
        _product("toy.crowded", rows=128, stages=1, warps=2),
        Specimen("toy.double", double, double_of, {"BLOCK": 1024}, aligned=("size",)),
        Specimen("toy.wrong", double, double_of, {"BLOCKS": 1024}),
        Specimen("toy.uncompilable", double, double_of, {"BLOCK": 1000}),
        Specimen("toy.new", double, double_of, {"BLOCK": 512}, minimum=90),
    ]
