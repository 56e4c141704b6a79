"""The linear layer on the CPU: packed, plain and tiled against the fp32 reference; its door."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from readoff.kernels.dispatch import KernelInputError, NoImplementationError, Site
from readoff.kernels.linear import linear, pack, quantise
from readoff.kernels.linear.cpu import packable
from readoff.kernels.linear.reference import linear as reference
from readoff.kernels.linear.tiled import TILE

from .forests import relative_error
from .products import guarded

BOUND = {torch.float32: 2e-6, torch.bfloat16: 6e-3, torch.float16: 1e-3}
MOST = 300
"""Rows of the largest batch below."""
BORDERS = {2, 15, 16, 17, 31, 33, TILE - 1, TILE, TILE + 1, 127, 128, 129, 200, 299, MOST}


@pytest.fixture
def threads(request: pytest.FixtureRequest) -> Iterator[int]:
    """A number of threads while the test runs."""
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)


@pytest.mark.parametrize("rows", [1, 2, 63, 65, 200])
@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no bias"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_every_product_equals_the_reference(dtype: torch.dtype, bias: bool, rows: int) -> None:
    torch.manual_seed(0)
    x, w = torch.randn(rows, 96).to(dtype), torch.randn(75, 96).to(dtype)
    b = torch.randn(75).to(dtype) if bias else None
    wanted = reference(x.float(), w.float(), None if b is None else b.float())
    packed = pack(w)
    assert packed.is_mkldnn == packable(w)
    before = linear.calls.copy()
    for weight in (w, packed):
        found = [linear(x, weight, b)]
        with torch.no_grad(), linear.use("tiled"):
            found.append(linear(x, weight, b))
        for y in found:
            assert y.dtype == dtype
            assert y.shape == wanted.shape
            assert relative_error(y, wanted) <= BOUND[dtype]
    ran = linear.calls - before
    assert ran.pop("tiled") == 2
    assert ran == ({"plain": 1, "onednn": 1} if packed.is_mkldnn else {"plain": 2})


@pytest.mark.parametrize(
    "few", [True, pytest.param(False, marks=pytest.mark.slow)], ids=["borders", "every number"]
)
@pytest.mark.parametrize("threads", [1, 2], indirect=True)
@pytest.mark.parametrize("layout", ["plain", "packed"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@torch.inference_mode()
def test_tiled_rows_never_depend_on_their_batch(
    dtype: torch.dtype, layout: str, threads: int, few: bool
) -> None:
    """Alone, beside any number of others, at any place: the same bits."""
    torch.manual_seed(1)
    width = 1000  # long enough for a library to split the sums, and no multiple of a vector
    x, w = torch.randn(MOST, width).to(dtype), torch.randn(72, width).to(dtype)
    bias = torch.randn(72).to(dtype)
    weight = pack(w) if layout == "packed" else w
    if layout == "packed" and not packable(w):
        pytest.skip("this processor packs no weights of that dtype")
    with linear.use("tiled"):
        alone = linear(x, weight, bias)
        singly = range(0, MOST, 37 if few else 1)
        found = torch.cat([linear(x[n : n + 1], weight, bias) for n in singly])
        wrong = {1: int((found != alone[list(singly)]).sum())}
        for rows in sorted(BORDERS) if few else range(2, MOST + 1):
            chosen = torch.randperm(MOST)[:rows]
            found = linear(x[chosen], weight, bias)
            wrong[rows] = int((found != alone[chosen]).sum())
        away = torch.empty(MOST * width + 1, dtype=dtype)[1:].view(MOST, width).copy_(x)
        wrong[0] = int((linear(away, weight, bias) != alone).sum())  # off a vector's border
        wrong[-1] = int((linear(guarded(x, 3), weight, bias) != alone).sum())
    assert sum(wrong.values()) == 0, wrong
    assert not alone.isnan().any()


@torch.inference_mode()
def test_tiled_takes_no_rows() -> None:
    with linear.use("tiled"):
        assert linear(torch.randn(0, 32), torch.randn(16, 32), None).shape == (0, 16)


def test_tiled_runs_by_name_only() -> None:
    for layout in ("plain", "packed", "int8"):
        site = Site("cpu", torch.bfloat16, layout=layout)
        assert not linear.implementations["tiled"].serves(site)[0]
    with linear.use("tiled"), pytest.raises(NoImplementationError, match="cuda tensors"):
        linear.choose(Site("cuda", torch.bfloat16))
    with linear.use("tiled"), pytest.raises(NoImplementationError, match="gradients are wanted"):
        linear.choose(Site("cpu", torch.bfloat16, grad=True))


def test_the_library_is_preferred_to_triton() -> None:
    """On CUDA too, for weights that aren't quantised; nothing here asks a device."""
    site = Site("cuda", torch.bfloat16)
    assert linear.choose(site).name == "plain"
    served, reason = linear.implementations["triton"].serves(site)
    assert not served
    assert "the library's product is preferred" in reason


def test_the_reference_takes_packed_weights() -> None:
    x, w = torch.randn(3, 32), torch.randn(16, 32)
    with linear.use("reference"):
        assert torch.equal(linear(x, pack(w), None), reference(x, w, None))


def test_a_packed_weight_cannot_go_the_plain_way() -> None:
    w = pack(torch.randn(16, 32))
    if not w.is_mkldnn:
        pytest.skip("this build of torch has no oneDNN")
    for name in ("plain", "triton"):
        with linear.use(name), pytest.raises(LookupError, match="the weight is packed"):
            linear(torch.randn(3, 32), w, None)


def test_what_cannot_be_packed_stays_as_it_is() -> None:
    meta = torch.empty(4, 4, device="meta")
    assert pack(meta) is meta
    double = torch.zeros(4, 4, dtype=torch.float64)
    assert pack(double) is double


X, W, B = torch.zeros(3, 8), torch.zeros(5, 8), torch.zeros(5)
WRONG = {
    "x is not rows": (X[0], W, B, "x is"),
    "x is whole numbers": (X.int(), W, B, "x is"),
    "x is transposed": (torch.zeros(8, 3).t(), W, B, "x is"),
    "weight of other inputs": (X, W[:, :7], B, "weight is"),
    "weight of another dtype": (X, W.bfloat16(), B, "weight is"),
    "weight is transposed": (X, torch.zeros(8, 5).t(), B, "weight is"),
    "weight elsewhere": (X, W.to("meta"), B, "weight is on meta"),
    "quantised weight of other inputs": (X, quantise(W[:, :7], "int8"), B, "weight is"),
    "bias too long": (X, W, torch.zeros(6), "bias is"),
    "bias is a matrix": (X, W, B[None], "bias is"),
    "bias of another dtype": (X, W, B.double(), "bias is"),
    "bias elsewhere": (X, W, B.to("meta"), "bias is on meta"),
}


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG.keys())
@torch.inference_mode()
def test_the_door_refuses_what_the_contract_does_not_allow(wrong: tuple[object, ...]) -> None:
    *arguments, named = wrong
    with pytest.raises(KernelInputError, match=f"linear: {named}"):
        linear(*arguments)
