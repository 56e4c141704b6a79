"""The row-wise operators against their naive forms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from readoff.kernels import pointwise
from readoff.kernels.pointwise import reference as naive

from .forests import relative_error

BOUND = {torch.float32: 2e-6, torch.bfloat16: 1e-2, torch.float16: 2e-3}
T, H, D = 37, 48, 16


def cases(dtype: torch.dtype) -> dict[str, tuple[Any, ...]]:
    torch.manual_seed(6)
    x = (torch.randn(T, H) * 3).to(dtype)
    heads = torch.randn(T, 6, D).to(dtype)
    return {
        "rms_norm": (x, torch.randn(H).to(dtype), 1e-6, False),
        "rms_norm 1+w": (x, torch.randn(H).to(dtype), 1e-6, True),
        "add_rms_norm": (x, x.flip(0), torch.randn(H).to(dtype), 1e-6, True),
        "swiglu": (x, H // 2),
        "gated_rms_norm": (heads, heads.flip(0), torch.randn(D).to(dtype), 1e-6),
        "sigmoid_gate": (x, x.flip(1)),
    }


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("name", cases(torch.float32))
def test_equals_the_naive_form(name: str, dtype: torch.dtype) -> None:
    args = cases(dtype)[name]
    wide = [a.float() if isinstance(a, torch.Tensor) else a for a in args]
    op: Callable[..., Any] = getattr(pointwise, name.split()[0])
    found, wanted = op(*args), getattr(naive, name.split()[0])(*wide)
    if isinstance(found, torch.Tensor):
        found, wanted = (found,), (wanted,)
    for a, b in zip(found, wanted, strict=True):
        assert a.dtype == dtype
        assert relative_error(a, b) <= BOUND[dtype]


@pytest.mark.parametrize("normed", [True, False], ids=["normed", "plain"])
@pytest.mark.parametrize("rotary", [D, D // 4], ids=["full", "partial"])
@pytest.mark.parametrize("some_rows", [True, False], ids=["read rows", "all rows"])
def test_norm_rope_write_equals_the_naive_form(normed: bool, rotary: int, some_rows: bool) -> None:
    torch.manual_seed(7)
    rows = torch.tensor([4, 9, 36]) if some_rows else None
    q = torch.randn(T if rows is None else len(rows), 4, D)
    k, v = torch.randn(T, 2, D), torch.randn(T, 2, D)
    weights = (torch.randn(D), torch.randn(D)) if normed else (None, None)
    angle = torch.randn(T, rotary // 2)
    slots = torch.randperm(T + 5)[:T]
    results = []
    for function in (pointwise.norm_rope_write, naive.norm_rope_write):
        pools = torch.zeros(T + 5, 2, D), torch.zeros(T + 5, 2, D)
        turned = function(
            q, k, v, *weights, 1e-6, True, angle.cos(), angle.sin(), rows, *pools, slots
        )
        results.append((turned, *pools))
    for found, wanted in zip(*results, strict=True):
        assert relative_error(found, wanted) <= 2e-6


def test_rotation_keeps_lengths_and_depends_on_distance_only() -> None:
    q, k = torch.randn(1, 1, D), torch.randn(1, 1, D)
    frequency = 1.0 / 10_000 ** (torch.arange(0, D, 2) / D)

    def product(at_q: int, at_k: int) -> float:
        turned = []
        for x, at in ((q, at_q), (k, at_k)):
            angle = at * frequency[None]
            pools = torch.zeros(1, 1, D), torch.zeros(1, 1, D)
            args = (None, None, 1e-6, False, angle.cos(), angle.sin(), None)
            turned.append(pointwise.norm_rope_write(x, x, x, *args, *pools, torch.tensor([0])))
            assert float(turned[-1].norm()) == pytest.approx(float(x.norm()), rel=1e-5)
        return float((turned[0] * turned[1]).sum())

    assert product(5, 2) == pytest.approx(product(105, 102), abs=1e-4)
