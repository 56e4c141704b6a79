"""What `linear` refuses, at its door: on shapes and layouts always, on values on request."""

from __future__ import annotations

import torch

from readoff.kernels.dispatch import KernelInputError
from readoff.kernels.linear.quantised import QuantisedWeight, Weight


def check(x: torch.Tensor, weight: Weight, bias: torch.Tensor | None) -> None:
    """Shapes, dtypes, layouts and devices; looks at no value and waits for nothing."""
    if x.dim() != 2 or not x.dtype.is_floating_point:
        raise _wrong("x", x, "must be [rows, inputs] of floats")
    if x.stride(1) != 1 and x.shape[1] > 1:
        raise _wrong("x", x, "must have each row in one piece of memory")
    if isinstance(weight, QuantisedWeight):
        columns = weight.shape[1]
        if len(weight.shape) != 2 or columns != x.shape[1]:
            raise _wrong("weight", weight.values, f"must stand for [outputs, {x.shape[1]}]")
    else:
        if weight.dim() != 2 or weight.shape[1] != x.shape[1]:
            raise _wrong("weight", weight, f"must be [outputs, {x.shape[1]}], as x has columns")
        if weight.dtype != x.dtype:
            raise _wrong("weight", weight, f"must have the dtype of x, {x.dtype}")
        if not weight.is_mkldnn and weight.stride(1) != 1 and weight.shape[1] > 1:
            raise _wrong("weight", weight, "must have each row in one piece of memory")
    if weight.device != x.device:
        raise KernelInputError(f"linear: weight is on {weight.device}, and x on {x.device}")
    if bias is None:
        return
    if bias.dim() != 1 or bias.shape[0] != weight.shape[0]:
        raise _wrong("bias", bias, f"must be [{weight.shape[0]}], one for each output")
    if bias.dtype != x.dtype or not bias.is_contiguous():
        raise _wrong("bias", bias, f"must be contiguous and have the dtype of x, {x.dtype}")
    if bias.device != x.device:
        raise KernelInputError(f"linear: bias is on {bias.device}, and x on {x.device}")


def check_values(x: torch.Tensor, weight: Weight, bias: torch.Tensor | None) -> None:
    """Scales are finite and positive."""
    if isinstance(weight, QuantisedWeight):
        scales = weight.scales
        if not bool(((scales > 0) & scales.isfinite()).all()):
            raise KernelInputError("linear: the weight's scales must be finite and above 0")


def _wrong(name: str, found: torch.Tensor, must: str) -> KernelInputError:
    shape = list(found.shape)
    return KernelInputError(f"linear: {name} is {shape} of {found.dtype}; it {must}")
