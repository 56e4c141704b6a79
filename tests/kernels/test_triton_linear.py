"""The Triton kernels of the linear layer in the interpreter, against the reference.

The interpreter of Triton 3.9 narrows to e4m3 wrongly where rounding reaches the next power of
two (124.3 becomes 64, not 128): fp8 rows are tested on numbers that need no rounding, and fp8
products on rows that torch has quantised.
"""

from __future__ import annotations

import pytest
import torch

from readoff.kernels.linear import Kind, QuantisedWeight, linear, pack, quantise
from readoff.kernels.linear.product import blocks, multiply_rows
from readoff.kernels.linear.quantised import quantise_rows
from readoff.kernels.linear.reference import linear as reference
from readoff.kernels.linear.rows import quantise_rows as quantise_rows_in_triton
from readoff.kernels.linear.triton import specimens

from .forests import relative_error
from .products import guarded, pairs_first

DTYPES = {"fp32": torch.float32, "fp16": torch.float16}
ROWS = [1, 2, 64, 65, 130]
WIDTHS = [16, 96, 130]
"""Inputs: fewer than a block, whole blocks of some operands, whole blocks of none."""
CHANNELS = [1, 64, 75, 130]

# fp32: up to 130 products in another order. fp16: one rounding of the result.
BOUND = {"fp32": 2e-6, "fp16": 2.0**-11}


def run(
    x: torch.Tensor, weight: torch.Tensor | QuantisedWeight, bias: torch.Tensor | None
) -> torch.Tensor:
    """Through the door of the operator, Triton by name."""
    before = linear.calls["triton"]
    with torch.no_grad(), linear.use("triton"):
        found = linear(x, weight, bias)
    assert linear.calls["triton"] == before + 1
    return found


def operands(
    rows: int, width: int, channels: int, dtype: str, bias: bool, gap: int
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]:
    """x with NaN around every row, weight, bias."""
    torch.manual_seed(rows + width + channels)
    kind = DTYPES[dtype]
    x = guarded(torch.randn(rows, width).to(kind), gap)
    weight = guarded(torch.randn(channels, width).to(kind), gap)
    return x, weight, guarded(torch.randn(channels).to(kind)) if bias else None


@pairs_first(
    rows=ROWS, width=WIDTHS, channels=CHANNELS, dtype=list(DTYPES), bias=[False, True], gap=[0, 8]
)
def test_the_product_equals_the_reference(
    rows: int, width: int, channels: int, dtype: str, bias: bool, gap: int
) -> None:
    x, weight, b = operands(rows, width, channels, dtype, bias, gap)
    found = run(x, weight, b)
    wanted = reference(x.float(), weight.float(), None if b is None else b.float())
    assert (found.dtype, found.shape) == (DTYPES[dtype], wanted.shape)
    assert relative_error(found, wanted) <= BOUND[dtype]


@pairs_first(
    rows=ROWS, width=WIDTHS, channels=CHANNELS, dtype=list(DTYPES), bias=[False, True], gap=[0, 8]
)
def test_int8_equals_the_reference(
    rows: int, width: int, channels: int, dtype: str, bias: bool, gap: int
) -> None:
    x, w, b = operands(rows, width, channels, dtype, bias, gap)
    weight = quantise(w, "int8")
    found = run(x, weight, b)
    wanted = reference(x.float(), weight, None if b is None else b.float())
    assert (found.dtype, found.shape) == (DTYPES[dtype], wanted.shape)
    # Whole-number sums are exact; what is left is the scales and one rounding.
    assert relative_error(found, wanted) <= {"fp32": 3e-7, "fp16": 2.0**-11}[dtype]


@pairs_first(
    rows=ROWS, width=WIDTHS, channels=CHANNELS, dtype=list(DTYPES), bias=[False, True], gap=[0]
)
def test_the_fp8_product_equals_the_reference(
    rows: int, width: int, channels: int, dtype: str, bias: bool, gap: int
) -> None:
    x, w, b = operands(rows, width, channels, dtype, bias, gap)
    weight = quantise(w, "fp8")
    values, scales = quantise_rows(x, "fp8")
    made = (scales, weight.scales)
    found = multiply_rows(guarded_bytes(values), weight.values, b, DTYPES[dtype], made)
    wanted = reference(x.float(), weight, None if b is None else b.float())
    assert relative_error(found, wanted) <= BOUND[dtype]


def guarded_bytes(values: torch.Tensor) -> torch.Tensor:
    """fp8 rows with NaN around each."""
    buffer = torch.full((len(values) + 2, values.shape[1] + 32), 0x7F, dtype=torch.uint8)
    view = buffer.view(values.dtype)[1:-1, 16:-16]
    view.copy_(values)
    return view


def test_fp8_goes_through_the_door() -> None:
    """Rows and weights of numbers that e4m3 holds: both launches, exact to the scales."""
    torch.manual_seed(3)
    x, w = (torch.randint(-8, 9, (n, 32)).float() for n in (20, 24))
    x[:, 0], w[:, 0] = 7.0, 7.0 * 64  # the rows' largest: scales are 1/64 and 1
    x[:, 1:].clamp_(-7, 7)
    weight = quantise(w, "fp8")
    found = run(x, weight, None)
    assert relative_error(found, x @ w.t()) <= 3e-7


@pairs_first(rows=[1, 5], width=[16, 48, 300, 1024], dtype=["fp32", "fp16", "bf16"], gap=[0, 8])
def test_int8_rows_equal_the_reference_bit_for_bit(
    rows: int, width: int, dtype: str, gap: int
) -> None:
    torch.manual_seed(4)
    kind = {**DTYPES, "bf16": torch.bfloat16}[dtype]
    x = (torch.randn(rows, width) * 3).to(kind)
    x[0] = 0
    x = guarded(x, gap)
    values, scales = quantise_rows_in_triton(x, "int8")
    wanted, wanted_scales = quantise_rows(x, "int8")
    assert torch.equal(values, wanted)
    assert torch.equal(scales, wanted_scales)


def test_fp8_rows_of_numbers_that_need_no_rounding() -> None:
    """Every number of e4m3, at several scales."""
    numbers = torch.arange(256).to(torch.uint8).view(torch.float8_e4m3fn).float()
    numbers = numbers[numbers.isfinite()]
    x = numbers * torch.tensor([2.0**-10, 1.0, 2.0**7])[:, None]
    values, scales = quantise_rows_in_triton(x, "fp8")
    assert torch.equal(values.float(), numbers.expand(3, -1))
    assert scales.tolist() == [2.0**-10, 1.0, 2.0**7]


@pytest.mark.parametrize("kind", [None, "int8"])
def test_rows_never_depend_on_their_batch(kind: Kind | None) -> None:
    """To the bit for whole numbers. The interpreter leaves a tile's product to numpy, which adds
    by place: for floats what is seen here is that no row gets anything of another one."""
    torch.manual_seed(5)
    x, w = torch.randn(150, 96), torch.randn(75, 96)
    weight = w if kind is None else quantise(w, kind)
    alone = torch.cat([run(row, weight, None) for row in x[:5].split(1)])
    for rows in (2, 64, 65, 150):
        others = 5 + torch.randperm(145)[: max(0, rows - 5)]
        chosen = torch.cat([torch.randperm(5)[:rows], others])[torch.randperm(rows)]
        found, known = run(x[chosen], weight, None), chosen < 5
        wrong = relative_error(found[known], alone[chosen[known]])
        assert wrong <= (1e-6 if kind is None else 0.0)


def test_garbage_stays_in_its_rows() -> None:
    x, w = torch.randn(70, 32), torch.randn(16, 32)
    wanted = run(x, w, None)
    x[3] = x[66] = torch.nan
    good = torch.ones(70, dtype=torch.bool)
    good[[3, 66]] = False
    assert torch.equal(run(x, w, None)[good], wanted[good])


def test_no_rows_launch_nothing() -> None:
    for weight in (torch.randn(16, 32), quantise(torch.randn(16, 32), "int8")):
        assert run(torch.randn(0, 32), weight, None).shape == (0, 16)


def test_a_packed_weight_is_unpacked() -> None:
    x, weight = torch.randn(3, 32), quantise(torch.randn(16, 32), "int8")
    assert torch.equal(run(x, pack(weight), None), run(x, weight, None))


def test_tiles_follow_from_the_layer_alone() -> None:
    """And their operands fit the smallest shared memory, 99 KiB, at every stage."""
    for dtype in (torch.float32, torch.bfloat16, torch.int8, torch.float8_e4m3fn):
        for channels in (64, 1024, 2560, 8224):
            size = blocks(dtype, channels)
            stage = (size.m + size.n) * size.k * dtype.itemsize
            assert stage * size.stages <= 99 * 1024


def test_specimens_have_unique_names_and_every_kind() -> None:
    names = [specimen.name for specimen in specimens()]
    assert len(set(names)) == len(names)
    for part in ("multiply[bf16", "multiply[fp32", "multiply[i8", "multiply[fp8e4nv"):
        assert any(part in name for name in names)
    assert {s.minimum for s in specimens() if "fp8" in s.name} == {89}
    assert {s.minimum for s in specimens() if "fp8" not in s.name} == {80}
