"""What the readout refuses: on the host at every call, in the tensors under READOFF_CHECK=1."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import NoReturn

import torch

from readoff.kernels.dispatch import KernelInputError

MOST_LABELS = 255
"""Labels of one question."""

FLOATS = (torch.float32, torch.bfloat16, torch.float16)


def label_readout(
    hidden: torch.Tensor,
    head: torch.Tensor,
    rows: torch.Tensor,
    norm_weight: torch.Tensor,
    eps: float,
    plus_one: bool,
    label_offsets: torch.Tensor,
    label_ids: torch.Tensor,
    prior: torch.Tensor,
    temperature: torch.Tensor,
    ordinal: torch.Tensor | None = None,
) -> None:
    """Shapes, dtypes, layouts and devices."""
    log_partition(hidden, head, rows, norm_weight, eps, plus_one)
    (questions,) = rows.shape
    labels = label_ids.shape[0] if label_ids.ndim else 0
    device = hidden.device
    _vector("label_offsets", label_offsets, questions + 1, torch.int64, device)
    _vector("label_ids", label_ids, labels, torch.int64, device)
    _vector("prior", prior, labels, torch.float32, device)
    _vector("temperature", temperature, questions, torch.float32, device)
    if ordinal is not None:
        _vector("ordinal", ordinal, questions, torch.bool, device)


def log_partition(
    hidden: torch.Tensor,
    head: torch.Tensor,
    rows: torch.Tensor,
    norm_weight: torch.Tensor,
    eps: float,
    plus_one: bool,
) -> None:
    """Shapes, dtypes, layouts and devices."""
    if hidden.ndim != 2 or hidden.dtype not in FLOATS or hidden.stride(1) != 1:
        _refuse("hidden", hidden, "[T, H] in fp32, bf16 or fp16, elements of a row adjacent")
    width = hidden.shape[1]
    if (
        head.ndim != 2
        or head.shape[1] != width
        or head.dtype != hidden.dtype
        or head.stride(1) != 1
        or head.device != hidden.device
    ):
        _refuse("head", head, f"[vocab, {width}], dtype and device of hidden, elements adjacent")
    if norm_weight.dtype not in FLOATS:
        _refuse("norm_weight", norm_weight, f"[{width}] in fp32, bf16 or fp16")
    _vector("norm_weight", norm_weight, width, norm_weight.dtype, hidden.device)
    if rows.ndim != 1:
        _refuse("rows", rows, "[N] int64")
    _vector("rows", rows, rows.shape[0], torch.int64, hidden.device)
    if not (math.isfinite(eps) and eps >= 0.0):
        raise KernelInputError(f"eps is {eps!r}; it must be finite and not negative.")


def label_readout_values(
    hidden: torch.Tensor,
    head: torch.Tensor,
    rows: torch.Tensor,
    norm_weight: torch.Tensor,
    eps: float,
    plus_one: bool,
    label_offsets: torch.Tensor,
    label_ids: torch.Tensor,
    prior: torch.Tensor,
    temperature: torch.Tensor,
    ordinal: torch.Tensor | None = None,
) -> None:
    """Rows, offsets, ids, priors and temperatures."""
    log_partition_values(hidden, head, rows, norm_weight, eps, plus_one)
    offsets, labels = label_offsets.tolist(), len(label_ids)
    if offsets[0] != 0 or offsets != sorted(offsets) or offsets[-1] > labels:
        raise KernelInputError(
            f"label_offsets is {_some(offsets)}; it must start at 0, never fall, and end at "
            f"{labels}, the number of label_ids, or before."
        )
    counts = [b - a for a, b in pairwise(offsets)]
    if max(counts, default=0) > MOST_LABELS:
        raise KernelInputError(
            f"label_offsets gives a question {max(counts)} labels; {MOST_LABELS} are the most."
        )
    used = offsets[-1]
    _range("label_ids", label_ids[:used], len(head), "the rows of head")
    if not prior[:used].isfinite().all():
        raise KernelInputError("prior holds values that aren't finite numbers.")
    for i, value in enumerate(temperature.tolist()):
        if counts[i] and not (math.isfinite(value) and value > 0.0):
            raise KernelInputError(
                f"temperature[{i}] is {value!r}; it must be a finite number above 0."
            )


def log_partition_values(
    hidden: torch.Tensor,
    head: torch.Tensor,
    rows: torch.Tensor,
    norm_weight: torch.Tensor,
    eps: float,
    plus_one: bool,
) -> None:
    """Rows."""
    _range("rows", rows, len(hidden), "the rows of hidden")


def _vector(
    name: str, found: torch.Tensor, length: int, dtype: torch.dtype, device: torch.device
) -> None:
    if (
        found.ndim != 1
        or found.shape[0] != length
        or found.dtype is not dtype
        or found.device != device
        or not found.is_contiguous()
    ):
        _refuse(name, found, f"[{length}] {_word(dtype)}, contiguous, on the device of hidden")


def _range(name: str, found: torch.Tensor, end: int, what: str) -> None:
    if len(found) and not (int(found.min()) >= 0 and int(found.max()) < end):
        raise KernelInputError(
            f"{name} goes from {int(found.min())} to {int(found.max())}; {what} are 0 to {end - 1}."
        )


def _refuse(name: str, found: torch.Tensor, wanted: str) -> NoReturn:
    raise KernelInputError(
        f"{name} is {list(found.shape)} {_word(found.dtype)} on {found.device}, "
        f"strides {list(found.stride())}; it must be {wanted}."
    )


def _word(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _some(values: list[int]) -> str:
    return str(values) if len(values) <= 10 else f"{values[:5]} … {values[-5:]}"
