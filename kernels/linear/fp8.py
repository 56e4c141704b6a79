"""The library's fp8 product on CUDA: e4m3 with a scale for each row and each channel."""

from __future__ import annotations

from functools import cache

import torch

from readoff.kernels.dispatch import Site, Verdict
from readoff.kernels.linear.quantised import QuantisedWeight, Weight

FP8_CAPABILITY = (8, 9)
"""Ada: the first with fp8 matrix instructions."""
SCALED_MM_CAPABILITY = (9, 0)
"""Hopper: the first for which the library has a product with a scale for each row."""


def linear_scaled_mm(x: torch.Tensor, weight: Weight, bias: torch.Tensor | None) -> torch.Tensor:
    """torch._scaled_mm by rows, after one kernel that quantises the rows."""
    assert isinstance(weight, QuantisedWeight)
    from readoff.kernels.linear import triton

    if any(size % 16 for size in weight.shape):  # the library takes multiples of 16 only
        return triton.linear(x, weight, bias)
    values, scales = triton.quantise_rows(x, "fp8")
    y: torch.Tensor = torch._scaled_mm(
        values,
        weight.values.t(),
        scale_a=scales[:, None],
        scale_b=weight.scales[None, :],
        bias=bias,
        out_dtype=x.dtype,
    )
    return y


def fp8_products(site: Site, minimum: tuple[int, int]) -> Verdict:
    """Whether the device multiplies fp8, and why not."""
    if site.device != "cuda":
        return False, f"fp8 products need a CUDA device, and these are {site.device} tensors"
    found = capability()
    if found < minimum:
        return False, f"compute capability {_dotted(found)}; fp8 here needs {_dotted(minimum)}"
    return True, ""


def serves_scaled_mm(site: Site) -> Verdict:
    """fp8 weights where the library's product with row scales exists."""
    if site.layout != "fp8":
        return False, "the weight isn't fp8"
    if site.dtype != torch.bfloat16:
        return False, f"it gives bf16, not {site.dtype}"
    if not hasattr(torch, "_scaled_mm"):
        return False, "this torch has no _scaled_mm"
    if site.grad:
        return False, "gradients are wanted, and 8-bit products have none"
    served, why_not = fp8_products(site, SCALED_MM_CAPABILITY)
    return served, "torch._scaled_mm, a scale for each row" if served else why_not


@cache
def capability() -> tuple[int, int]:
    """Of the current CUDA device."""
    return torch.cuda.get_device_capability()


def _dotted(version: tuple[int, int]) -> str:
    return ".".join(map(str, version))
