"""The linear layer: packed and plain against the fp32 reference."""

from __future__ import annotations

import pytest
import torch

from readoff.kernels.linear import linear, pack
from readoff.kernels.linear.cpu import packable
from readoff.kernels.linear.reference import linear as reference

from .forests import relative_error

BOUND = {torch.float32: 2e-6, torch.bfloat16: 6e-3, torch.float16: 1e-3}


@pytest.mark.parametrize("rows", [1, 2, 63, 65, 200])
@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no bias"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_packed_and_plain_equal_the_reference(dtype: torch.dtype, bias: bool, rows: int) -> None:
    torch.manual_seed(0)
    x, w = torch.randn(rows, 96).to(dtype), torch.randn(75, 96).to(dtype)
    b = torch.randn(75).to(dtype) if bias else None
    wanted = reference(x.float(), w.float(), None if b is None else b.float())
    packed = pack(w)
    assert packed.is_mkldnn == packable(w)
    before = linear.calls.copy()
    for weight in (w, packed):
        found = linear(x, weight, b)
        assert found.dtype == dtype
        assert relative_error(found, wanted) <= BOUND[dtype]
    ran = linear.calls - before
    assert ran == ({"plain": 1, "onednn": 1} if packed.is_mkldnn else {"plain": 2})


def test_the_reference_takes_packed_weights() -> None:
    x, w = torch.randn(3, 32), torch.randn(16, 32)
    with linear.use("reference"):
        assert torch.equal(linear(x, pack(w), None), reference(x, w, None))


def test_a_packed_weight_cannot_go_the_plain_way() -> None:
    w = pack(torch.randn(16, 32))
    if not w.is_mkldnn:
        pytest.skip("this build of torch has no oneDNN")
    with linear.use("plain"), pytest.raises(LookupError, match="the weight is packed"):
        linear(torch.randn(3, 32), w, None)


def test_what_cannot_be_packed_stays_as_it_is() -> None:
    meta = torch.empty(4, 4, device="meta")
    assert pack(meta) is meta
    double = torch.zeros(4, 4, dtype=torch.float64)
    assert pack(double) is double
