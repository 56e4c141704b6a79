"""What `unpack` refuses at its door."""

from __future__ import annotations

from itertools import pairwise

import torch

from readoff.kernels.dispatch import KernelInputError
from readoff.kernels.unpack.message import BLOCK, HEADER


def check(
    packed: torch.Tensor, starts: torch.Tensor, ints: torch.Tensor, floats: torch.Tensor
) -> None:
    """Dtypes, layouts and sizes, without looking at a value."""
    for name, tensor, dtype in (
        ("packed", packed, torch.int32),
        ("starts", starts, torch.int64),
        ("ints", ints, torch.int64),
        ("floats", floats, torch.float32),
    ):
        if tensor.dim() != 1 or tensor.dtype != dtype or not tensor.is_contiguous():
            raise KernelInputError(
                f"unpack: {name} is {tensor.dtype} {list(tensor.shape)}"
                f"{'' if tensor.is_contiguous() else ', not contiguous'}; "
                f"it must be a contiguous vector of {dtype}"
            )
        if tensor.device != packed.device:
            raise KernelInputError(
                f"unpack: {name} is on {tensor.device}, but packed on {packed.device}"
            )
    if len(starts) < 2 or len(packed) < HEADER * (len(starts) - 1):
        raise KernelInputError(
            f"unpack: packed has {len(packed)} words and starts {len(starts)} entries; there must "
            f"be at least one field, and {HEADER} words a field"
        )
    for name, tensor in (("ints", ints), ("floats", floats)):
        if len(tensor) % BLOCK:
            raise KernelInputError(
                f"unpack: {name} has {len(tensor)} entries; it must be a multiple of {BLOCK}"
            )


def check_values(
    packed: torch.Tensor, starts: torch.Tensor, ints: torch.Tensor, floats: torch.Tensor
) -> None:
    """Fields in order and inside their buffers, values inside the message. Waits for the device."""
    bounds = starts.tolist()
    fields = len(bounds) - 1
    if bounds[0] != 0 or bounds[-1] != len(ints) + len(floats):
        raise KernelInputError(
            f"unpack: starts runs from {bounds[0]} to {bounds[-1]}; it must run from 0 to "
            f"{len(ints) + len(floats)}, the size of ints and floats"
        )
    for first, last in pairwise(bounds):
        if first % BLOCK or last <= first or first < len(ints) < last:
            raise KernelInputError(
                f"unpack: starts holds a field {first}..{last}; fields ascend, begin at multiples "
                f"of {BLOCK}, and lie in ints (the first {len(ints)}) or in floats, never in both"
            )
    header = packed[: HEADER * fields].view(fields, HEADER).tolist()
    for field, (source, count, _) in enumerate(header):
        size = bounds[field + 1] - bounds[field]
        if source < HEADER * fields or not 0 <= count <= size or source + count > len(packed):
            raise KernelInputError(
                f"unpack: field {field} takes {count} values from word {source} of {len(packed)} "
                f"for {size} entries; they must lie behind the header and fit"
            )
