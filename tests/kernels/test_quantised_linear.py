"""8-bit weights: what is stored, the int8 product of the CPU, and what runs where."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from readoff.kernels import triton_support
from readoff.kernels.dispatch import OPS, KernelInputError, NoImplementationError, Site
from readoff.kernels.linear import Kind, fp8, int8, linear, pack, quantise, quantised
from readoff.kernels.linear.quantised import PRODUCTS, quantise_rows
from readoff.kernels.linear.reference import linear as reference

from .forests import relative_error

KINDS: tuple[Kind, ...] = ("int8", "fp8")
needs_vnni = pytest.mark.skipif(not int8.vnni()[0], reason=int8.vnni()[1])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_rows_keep_what_their_scale_resolves(dtype: torch.dtype, kind: Kind) -> None:
    torch.manual_seed(0)
    x = (torch.randn(40, 200) * torch.logspace(-3, 3, 40)[:, None]).to(dtype)
    values, scales = quantise_rows(x, kind)
    found, exact = values.float() * scales[:, None], x.float()
    largest = exact.abs().amax(dim=1, keepdim=True)
    # int8: half a step of 1/127 of the row's largest. e4m3: half a unit of the 4th bit, or of the
    # smallest numbers, 2^-9 of 448.
    step = largest / 254 if kind == "int8" else (exact.abs() / 16).clamp(min=2**-10 / 448 * largest)
    assert bool(((found - exact).abs() <= step * (1 + 1e-5)).all())
    assert torch.equal(found.abs().amax(dim=1) > 0, largest[:, 0] > 0)
    assert relative_error(found.abs().amax(dim=1, keepdim=True), largest) <= 1e-6


@pytest.mark.parametrize("kind", KINDS)
def test_rows_are_symmetric_and_ties_go_to_even(kind: Kind) -> None:
    largest = 127.0 if kind == "int8" else 448.0
    row = torch.tensor([[largest, 0.5, 1.5, 2.5, 63.5, 17.0, 19.0]])
    values, scales = quantise_rows(torch.cat([row, -row]), kind)
    wanted = [0.0, 2.0, 2.0, 64.0, 17.0, 19.0] if kind == "int8" else [0.5, 1.5, 2.5, 64, 16, 20]
    assert values[0].float().tolist() == [largest, *wanted]
    assert torch.equal(values[1].float(), -values[0].float())
    assert scales.tolist() == [1.0, 1.0]


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("numbers", [1, 64, 200, 256, 10**6])
@pytest.mark.parametrize("kind", KINDS)
def test_rows_in_blocks_are_rows(
    kind: Kind, numbers: int, turned: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(0)
    x = torch.randn(100, 37).t() if turned else torch.randn(37, 100)
    monkeypatch.setattr(quantised, "_BLOCK", numbers)
    values, scales = quantise_rows(x, kind)
    for row, found, scale in zip(x, values, scales, strict=True):
        wanted, one = quantise_rows(row[None], kind)
        assert torch.equal(found.float(), wanted[0].float())
        assert torch.equal(scale, one[0])


@pytest.mark.parametrize("kind", KINDS)
def test_zeros_and_dust_become_zeros(kind: Kind) -> None:
    values, scales = quantise_rows(torch.tensor([[0.0, 0.0], [1e-39, -1e-39]]), kind)
    assert bool((values.float() == 0).all())
    assert bool((scales > 0).all())
    assert bool(scales.isfinite().all())


@needs_vnni
@pytest.mark.parametrize("rows", [0, 1, 2, 17, 65, 200])
@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no bias"])
@pytest.mark.parametrize("packed", [True, False], ids=["packed", "plain"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@torch.inference_mode()
def test_int8_equals_the_reference(dtype: torch.dtype, packed: bool, bias: bool, rows: int) -> None:
    torch.manual_seed(1)
    x, w = torch.randn(rows, 96).to(dtype), torch.randn(75, 96).to(dtype)
    b = torch.randn(75).to(dtype) if bias else None
    weight = quantise(w, "int8")
    if packed:
        weight = pack(weight)
        assert weight.is_packed
    before = linear.calls.copy()
    found = linear(x, weight, b)
    assert linear.calls - before == {"int8": 1}
    assert (found.dtype, found.shape) == (dtype, (rows, 75))
    if rows:
        wanted = reference(x.float(), weight, None if b is None else b.float())
        # The sums are exact on both sides; scales in another order, one rounding at the end.
        rounding = {torch.float32: 5e-7, torch.bfloat16: 2.0**-8, torch.float16: 2.0**-11}
        assert relative_error(found, wanted) <= rounding[dtype]


@needs_vnni
@torch.inference_mode()
def test_int8_sums_are_exact_at_their_largest() -> None:
    """Every product 127 * 127 of one sign: instructions that saturate would show here."""
    x, w = torch.ones(5, 9216), torch.ones(16, 9216)
    x[1], w[3] = -1.0, -1.0
    found = linear(x, pack(quantise(w, "int8")), None)
    assert relative_error(found, x @ w.t()) <= 3e-7


@needs_vnni
@torch.inference_mode()
def test_int8_rows_never_depend_on_their_batch() -> None:
    """So the fixed-order mode takes them as they are."""
    torch.manual_seed(2)
    x, weight = torch.randn(300, 1000).bfloat16(), pack(quantise(torch.randn(72, 1000), "int8"))
    with linear.use("tiled"):
        alone = linear(x, weight, None)
        for rows in (1, 2, 16, 17, 64, 65, 299, 300):
            chosen = torch.randperm(300)[:rows]
            assert torch.equal(linear(x[chosen], weight, None), alone[chosen])


@needs_vnni
def test_packing_keeps_the_numbers() -> None:
    weight = quantise(torch.randn(75, 96), "int8")
    packed = pack(weight)
    assert packed.shape == weight.shape == (75, 96)
    assert torch.equal(packed.plain_values(), weight.values)
    assert torch.equal(packed.dense(), weight.dense())
    assert pack(quantise(torch.randn(4, 4), "fp8")).is_packed is False


@pytest.mark.parametrize("kind", KINDS)
def test_without_a_product_the_reason_is_told(kind: Kind, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(int8, "vnni", lambda: (False, "the processor has no AVX512-VNNI"))
    why = {"int8": "no AVX512-VNNI", "fp8": "need a CUDA device"}[kind]
    monkeypatch.setitem(OPS, "probe", linear)  # and gone again afterwards
    fresh = type(linear)("probe", list(linear.implementations.values()))
    with pytest.raises(NoImplementationError, match=why):
        fresh.choose(Site("cpu", torch.bfloat16, layout=kind))


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> Callable[[tuple[int, int]], None]:
    """Says which compute capability the CUDA device that isn't there has."""

    def has(capability: tuple[int, int]) -> None:
        monkeypatch.setattr(fp8, "capability", lambda: capability)
        monkeypatch.setattr(triton_support, "_capability", lambda: capability)

    return has


@pytest.mark.parametrize(
    ("kind", "dtype", "capability", "wanted"),
    [
        ("int8", torch.bfloat16, (8, 0), "triton"),
        ("fp8", torch.bfloat16, (8, 9), "triton"),
        ("fp8", torch.bfloat16, (9, 0), "scaled_mm"),
        ("fp8", torch.float16, (9, 0), "triton"),
    ],
)
def test_what_runs_on_cuda(
    kind: Kind,
    dtype: torch.dtype,
    capability: tuple[int, int],
    wanted: str,
    device: Callable[[tuple[int, int]], None],
) -> None:
    device(capability)
    site = Site("cuda", dtype, layout=kind)
    served = [i.name for i in linear.implementations.values() if i.verdict(site, False)[0]]
    assert served[0] == wanted
    assert wanted in PRODUCTS[kind]


def test_an_older_device_is_refused_fp8(device: Callable[[tuple[int, int]], None]) -> None:
    device((8, 6))
    site = Site("cuda", torch.bfloat16, layout="fp8")
    for name in PRODUCTS["fp8"]:
        served, reason = linear.implementations[name].serves(site)
        assert not served
        assert "compute capability 8.6" in reason


def test_scales_are_looked_at_on_request(monkeypatch: pytest.MonkeyPatch) -> None:
    weight = quantise(torch.randn(16, 32), "int8")
    weight.scales[3] = torch.nan
    monkeypatch.setenv("READOFF_CHECK", "1")
    with linear.use("reference"), pytest.raises(KernelInputError, match="scales must be finite"):
        linear(torch.randn(3, 32), weight, None)
