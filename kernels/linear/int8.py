"""int8 products of the libraries: oneDNN on the CPU with weights packed once, cuBLAS on CUDA.

`torch._int_mm` on the CPU packs the weight anew at every call: against it the packed form was
measured at 1.1–1.35x for 40 rows and as fast for 512. oneDNN takes the rows as unsigned bytes with
128 as their zero: signed ones fall to its reference loop on AVX512-VNNI, thousands of times slower.
"""

from __future__ import annotations

import torch

from readoff.kernels.dispatch import Site, Verdict
from readoff.kernels.linear.quantised import QuantisedWeight, Weight, quantise_rows

_ZERO = 128


def pack_int8(weight: QuantisedWeight) -> QuantisedWeight:
    """The weight in oneDNN's blocked form, or as it is where that isn't possible."""
    if weight.kind != "int8" or weight.device.type != "cpu" or not vnni()[0]:
        return weight
    packed: torch.Tensor = torch.ops.onednn.qlinear_prepack(weight.values.contiguous(), None)
    zeros = torch.zeros(weight.shape[0], dtype=torch.int32)
    return QuantisedWeight("int8", packed, weight.scales, zeros)


def linear_int8(x: torch.Tensor, weight: Weight, bias: torch.Tensor | None) -> torch.Tensor:
    """oneDNN's product with a packed weight. Sums are whole numbers below 2^31, hence exact: a
    row's result depends on nothing but that row."""
    assert isinstance(weight, QuantisedWeight)
    if not weight.is_packed:
        weight = pack_int8(weight)
    values, scales = quantise_rows(x, "int8")
    shifted = values.view(torch.uint8).bitwise_xor_(_ZERO)  # [T, K]: the same as adding 128
    y: torch.Tensor = torch.ops.onednn.qlinear_pointwise(
        *(shifted, 1.0, _ZERO, weight.values, weight.scales, weight.zero_points),
        *(None, 1.0, 0, torch.float32, "none", [], ""),
    )  # [T, N], times the channels' scales
    return _finish(y.mul_(scales[:, None]), bias, x.dtype)


def linear_int_mm(x: torch.Tensor, weight: Weight, bias: torch.Tensor | None) -> torch.Tensor:
    """The library's int8 product with plain weights; it wants more than 16 rows on CUDA."""
    assert isinstance(weight, QuantisedWeight)
    values, scales = quantise_rows(x, "int8")
    rows = len(values)
    if rows <= 16:
        values = torch.nn.functional.pad(values, (0, 0, 0, 17 - rows))
    y = torch._int_mm(values, weight.values.t())[:rows].float()  # [T, N]
    return _finish(y.mul_(scales[:, None]).mul_(weight.scales), bias, x.dtype)


def _finish(y: torch.Tensor, bias: torch.Tensor | None, dtype: torch.dtype) -> torch.Tensor:
    if bias is not None:
        y += bias
    return y.to(dtype)


def vnni() -> Verdict:
    """Whether this build and processor multiply int8 well, and why not."""
    if not torch.backends.mkldnn.is_available():
        return False, "this build of torch has no oneDNN"
    if not hasattr(torch.ops.onednn, "qlinear_prepack"):
        return False, "this build of torch has no oneDNN int8 product"
    if not getattr(torch.cpu, "_is_vnni_supported", lambda: False)():
        return False, "the processor has no AVX512-VNNI"
    return True, ""


def serves_int8(site: Site) -> Verdict:
    """int8 weights on a CPU that multiplies them well."""
    if site.layout != "int8":
        return False, "the weight isn't int8"
    if site.device != "cpu":
        return False, f"{site.device} tensors"
    if site.grad:
        return False, "gradients are wanted, and 8-bit products have none"
    good, why_not = vnni()
    return good, "oneDNN int8, weights packed once, a scale for each row" if good else why_not


def forced_int_mm(site: Site) -> Verdict:
    """int8 weights on CUDA, by name."""
    if site.layout != "int8":
        return False, "the weight isn't int8"
    if site.device != "cuda":
        return False, f"{site.device} tensors"
    return True, "torch._int_mm"
