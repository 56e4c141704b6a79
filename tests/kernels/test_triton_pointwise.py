"""The row-wise Triton kernels in the interpreter, against the reference."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from readoff.kernels import pointwise
from readoff.kernels.dispatch import OPS
from readoff.kernels.pointwise import reference as naive

from .forests import relative_error
from .products import guarded, pairs_first

DTYPES = {"fp32": torch.float32, "fp16": torch.float16}

# Against the reference on the same inputs in fp32: another order of addition; fp16 rounds the
# result once, by half a unit in its 11th bit.
BOUND = {"fp32": 2e-6, "fp16": 2.0**-11}
ROWS = [1, 5]


def run(name: str, *args: Any) -> Any:
    """Through the door of the operator, Triton by name."""
    op = OPS[name]
    before = op.calls["triton"]
    with op.use("triton"):
        found = op(*args)
    assert op.calls["triton"] == before + 1
    return found


def wide(*args: Any) -> list[Any]:
    """Floats as fp32, the rest as it is."""
    return [a.float() if isinstance(a, torch.Tensor) and a.is_floating_point() else a for a in args]


def close(found: torch.Tensor, wanted: torch.Tensor, dtype: str, times: float = 1.0) -> None:
    assert found.dtype == DTYPES[dtype]
    assert found.shape == wanted.shape
    assert found.is_contiguous()
    assert relative_error(found, wanted) <= times * BOUND[dtype]


def values(*shape: int, dtype: str, gap: int = 0) -> torch.Tensor:
    return guarded((torch.randn(*shape) * 3).to(DTYPES[dtype]), gap)


@pairs_first(
    rows=ROWS, width=[16, 48, 64, 300], plus_one=[False, True], dtype=list(DTYPES), gap=[0, 8]
)
def test_rms_norm_equals_the_reference(
    rows: int, width: int, plus_one: bool, dtype: str, gap: int
) -> None:
    torch.manual_seed(1)
    x, weight = values(rows, width, dtype=dtype, gap=gap), values(width, dtype=dtype)
    args = (x, weight, 1e-6, plus_one)
    close(run("rms_norm", *args), naive.rms_norm(*wide(*args)), dtype)


@pairs_first(
    rows=ROWS, width=[16, 48, 64, 300], plus_one=[False, True], dtype=list(DTYPES), gap=[0, 8]
)
def test_add_rms_norm_equals_the_reference(
    rows: int, width: int, plus_one: bool, dtype: str, gap: int
) -> None:
    torch.manual_seed(2)
    x, residual = (values(rows, width, dtype=dtype, gap=g) for g in (gap, 3 * gap))
    weight = values(width, dtype=dtype)
    normed, total = run("add_rms_norm", x, residual, weight, 1e-6, plus_one)
    assert torch.equal(total, x + residual)
    assert total.is_contiguous()
    # The norm is that of the rounded sum, which the next residual adds to.
    close(normed, naive.rms_norm(*wide(total, weight, 1e-6, plus_one)), dtype)


@pairs_first(rows=ROWS, size=[16, 40, 1024, 1030], dtype=list(DTYPES), gap=[0, 8])
def test_swiglu_equals_the_reference(rows: int, size: int, dtype: str, gap: int) -> None:
    torch.manual_seed(3)
    x = values(rows, 2 * size, dtype=dtype, gap=gap)
    close(run("swiglu", x, size), naive.swiglu(*wide(x, size)), dtype)


@pairs_first(rows=ROWS, heads=[1, 16, 20, 32], dim=[16, 24], dtype=list(DTYPES), gap=[0, 8])
def test_gated_rms_norm_equals_the_reference(
    rows: int, heads: int, dim: int, dtype: str, gap: int
) -> None:
    torch.manual_seed(4)
    x, z = (values(rows, heads, dim, dtype=dtype, gap=g) for g in (gap, 2 * gap))
    args = (x, z, values(dim, dtype=dtype), 1e-6)
    close(run("gated_rms_norm", *args), naive.gated_rms_norm(*wide(*args)), dtype)


@pairs_first(
    rows=ROWS,
    shape=[(16,), (40,), (1100,), (3, 16), (14, 64), (2, 24)],
    dtype=list(DTYPES),
    gap=[0, 8],
)
def test_sigmoid_gate_equals_the_reference(
    rows: int, shape: tuple[int, ...], dtype: str, gap: int
) -> None:
    torch.manual_seed(5)
    x, gate = (values(rows, *shape, dtype=dtype, gap=g) for g in (gap, 2 * gap))
    close(run("sigmoid_gate", x, gate), naive.sigmoid_gate(*wide(x, gate)), dtype)


HEADS = {"8/2 x 64, R 16": (8, 2, 64, 16), "14/2 x 16": (14, 2, 16, 16), "3/1 x 24": (3, 1, 24, 12)}
TOKENS, SLOTS = 6, 11


@pairs_first(
    heads=list(HEADS),
    reads=["all rows", "some rows"],
    weights=["both", "none", "q", "k"],
    plus_one=[False, True],
    dtype=list(DTYPES),
    gap=[0, 8],
)
def test_norm_rope_write_equals_the_reference(
    heads: str, reads: str, weights: str, plus_one: bool, dtype: str, gap: int
) -> None:
    torch.manual_seed(6)
    q_heads, kv_heads, dim, rotary = HEADS[heads]
    rows = guarded(torch.tensor([4, 0, 5, 4])) if reads == "some rows" else None
    q = values(TOKENS if rows is None else 4, q_heads, dim, dtype=dtype, gap=gap)
    k, v = (values(TOKENS, kv_heads, dim, dtype=dtype, gap=g) for g in (gap, 2 * gap))
    scales = [
        values(dim, dtype=dtype) if weights in ("both", name) else None for name in ("q", "k")
    ]
    angle = torch.randn(TOKENS, rotary // 2) * 100
    cos, sin = guarded(angle.cos()), guarded(angle.sin())
    slots = guarded(torch.tensor([3, 10, 0, 7, 1, 9]))
    args = (q, k, v, *scales, 1e-6, plus_one, cos, sin, rows)

    pools = [values(SLOTS, kv_heads, dim, dtype=dtype, gap=gap) for _ in range(2)]
    before = [pool.clone() for pool in pools]
    out = run("norm_rope_write", *args, *pools, slots)
    wanted_pools = [pool.float() for pool in before]
    wanted = naive.norm_rope_write(*wide(*args), *wanted_pools, slots)
    # The largest value isn't the one that is off by most: rotation adds two rounded products.
    close(out, wanted, dtype, times=1.5)
    for found, kept, pool in zip(pools, wanted_pools, before, strict=True):
        assert relative_error(found, kept) <= 1.5 * BOUND[dtype]
        others = [s for s in range(SLOTS) if s not in slots.tolist()]
        assert torch.equal(found[others], pool[others])


def test_padding_rows_are_not_written() -> None:
    torch.manual_seed(7)
    q, k, v = (values(3, heads, 16, dtype="fp32") for heads in (4, 2, 2))
    k[1], v[1] = torch.nan, torch.nan
    angle = torch.randn(3, 8)
    pools = [values(SLOTS, 2, 16, dtype="fp32") for _ in range(2)]
    before = [pool.clone() for pool in pools]
    turn = (None, None, 1e-6, False, angle.cos(), angle.sin(), None)
    run("norm_rope_write", q, k, v, *turn, *pools, torch.tensor([5, -1, 2]))
    wanted = [pool.clone() for pool in before]
    take = torch.tensor([0, 2])
    turn = (None, None, 1e-6, False, angle.cos()[take], angle.sin()[take], None)
    naive.norm_rope_write(q[take], k[take], v[take], *turn, *wanted, torch.tensor([5, 2]))
    for found, kept in zip(pools, wanted, strict=True):
        assert relative_error(found, kept) <= BOUND["fp32"]


def test_pools_of_another_dtype_take_rounded_values() -> None:
    torch.manual_seed(8)
    q, k, v = (values(3, heads, 16, dtype="fp32") for heads in (4, 2, 2))
    pools = [torch.zeros(3, 2, 16, dtype=torch.float16) for _ in range(2)]
    turn = (None, None, 1e-6, False, torch.ones(3, 8), torch.zeros(3, 8), None)
    out = run("norm_rope_write", q, k, v, *turn, *pools, torch.arange(3))
    assert torch.equal(out, q)
    assert torch.equal(pools[0], k.half())
    assert torch.equal(pools[1], v.half())


@pytest.mark.parametrize("name", sorted(pointwise.__all__))
def test_no_rows_are_no_work(name: str) -> None:
    x, heads, weight = torch.zeros(0, 16), torch.zeros(0, 2, 16), torch.ones(16)
    table = torch.zeros(0, 8)
    pools = torch.zeros(1, 2, 16), torch.zeros(1, 2, 16)
    turn = (None, None, 1e-6, False, table, table, None)
    args: dict[str, tuple[Any, ...]] = {
        "rms_norm": (x, weight, 1e-6, False),
        "add_rms_norm": (x, x, weight, 1e-6, False),
        "swiglu": (x, 8),
        "gated_rms_norm": (heads, heads, weight, 1e-6),
        "sigmoid_gate": (x, x),
        "norm_rope_write": (heads, heads, heads, *turn, *pools, torch.zeros(0, dtype=torch.long)),
    }
    found = run(name, *args[name])
    assert all(len(t) == 0 for t in (found if isinstance(found, tuple) else (found,)))
