"""y = x Wᵀ + b over packed rows.

Contract of every implementation:
    x: [T, K] floating, each row in one piece; weight: [N, K] of the same dtype, or what `pack`
    made of it, or a `QuantisedWeight`; bias: [N] or None. Returns [T, N] in x's dtype.
    Sums are fp32, and whole numbers with an int8 weight, whose rows of x are quantised first: a
    scale for each row.

"tiled" (CPU) and "triton" add in an order that depends on N and K only: a row's result doesn't
change with the rows beside it. Both are chosen by name only where the library has a product too.
"""

from __future__ import annotations

import torch

from readoff.kernels.dispatch import Implementation, Op, Site, Verdict, always
from readoff.kernels.linear import cpu
from readoff.kernels.linear.checks import check, check_values
from readoff.kernels.linear.cpu import pack
from readoff.kernels.linear.fp8 import (
    FP8_CAPABILITY,
    fp8_products,
    linear_scaled_mm,
    serves_scaled_mm,
)
from readoff.kernels.linear.int8 import forced_int_mm, linear_int8, linear_int_mm, serves_int8
from readoff.kernels.linear.quantised import STORED, Kind, QuantisedWeight, Weight, quantise
from readoff.kernels.linear.reference import linear as reference
from readoff.kernels.linear.tiled import forced_tiled, linear_tiled, serves_tiled
from readoff.kernels.triton_support import implementation, interpreted, served_by_triton

__all__ = ["Kind", "QuantisedWeight", "Weight", "linear", "pack", "quantise"]


def _onednn(site: Site) -> Verdict:
    if site.layout != "packed":
        return False, "the weight isn't packed"
    return True, "oneDNN with a weight packed once"


def _plain(site: Site) -> Verdict:
    if site.layout != "plain":
        return False, f"the weight is {site.layout}"
    return True, "torch.nn.functional.linear"


def _triton(site: Site) -> Verdict:
    if site.layout == "plain":
        return False, "the library's product is preferred; by name, rows don't depend on the batch"
    if site.device == "cpu":
        return False, "cpu tensors"
    return _triton_by_name(site)


def _triton_by_name(site: Site) -> Verdict:
    if site.layout == "packed":
        return False, "the weight is packed"
    served, reason = interpreted(site) if site.device == "cpu" else served_by_triton(site)
    if served and site.layout == "fp8" and site.device == "cuda":
        served, reason = fp8_products(site, FP8_CAPABILITY)
    if not served or reason:
        return served, reason
    return True, f"{site.layout} weights, fixed tiles"


def _reference(site: Site) -> Verdict:
    if site.layout in STORED:
        return False, "8-bit numbers multiplied in fp32 are for checking, so only by name"
    return True, "fp32"


def _by_name_only(site: Site) -> Verdict:
    return False, "not measured on this device yet, so only by name"


_kernels = implementation("linear.triton", "linear", "")

linear: Op[[torch.Tensor, Weight, torch.Tensor | None], torch.Tensor] = Op(
    "linear",
    [
        Implementation("onednn", cpu.linear_packed, _onednn),
        Implementation("plain", cpu.linear_plain, _plain),
        Implementation("int8", linear_int8, serves_int8),
        Implementation("scaled_mm", linear_scaled_mm, serves_scaled_mm),
        Implementation("triton", _kernels.function, _triton, forced=_triton_by_name),
        Implementation("int_mm", linear_int_mm, _by_name_only, forced=forced_int_mm),
        Implementation("tiled", linear_tiled, serves_tiled, forced=forced_tiled),
        Implementation("reference", reference, _reference, forced=always("fp32")),
    ],
    check,
    check_values,
)
