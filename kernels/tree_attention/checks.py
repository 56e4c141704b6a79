"""What `tree_attention` refuses, at its door."""

from __future__ import annotations

import math
from itertools import pairwise

import torch

from readoff.kernels.dispatch import KernelInputError

FLOATS = (torch.float32, torch.bfloat16, torch.float16)


def check(
    q: torch.Tensor,
    k_pool: torch.Tensor,
    v_pool: torch.Tensor,
    q_start: torch.Tensor,
    q_length: torch.Tensor,
    kv_start: torch.Tensor,
    kv_length: torch.Tensor,
    chain_offsets: torch.Tensor,
    chain_spans: torch.Tensor,
    scale: float,
) -> None:
    """Shapes, dtypes, layouts and devices; looks at no value on the device.

    Raises:
        KernelInputError: names the argument, what it is and what it must be.
    """
    for name, tensor in (("q", q), ("k_pool", k_pool), ("v_pool", v_pool)):
        if tensor.dim() != 3:
            raise _error(f"{name} has shape {list(tensor.shape)}; it must be [rows, heads, D]")
        if tensor.stride(2) != 1:
            raise _error(f"{name} has strides {tensor.stride()}; its last must be 1")
        if tensor.dtype not in FLOATS or tensor.dtype != q.dtype:
            raise _error(f"{name} is {tensor.dtype}; q and the pools share one float dtype")
        if tensor.device != q.device:
            raise _error(f"{name} is on {tensor.device}, q on {q.device}")
    if k_pool.shape != v_pool.shape:
        raise _error(f"k_pool is {list(k_pool.shape)}, v_pool {list(v_pool.shape)}; they differ")
    if k_pool.shape[2] != q.shape[2]:
        raise _error(f"heads of the pools are {k_pool.shape[2]} wide, those of q {q.shape[2]}")
    if k_pool.shape[1] == 0 or q.shape[1] % k_pool.shape[1]:
        raise _error(
            f"q has {q.shape[1]} heads; they must be a multiple of the pools' {k_pool.shape[1]}"
        )
    runs = q_length.shape[0] if q_length.dim() == 1 else -1
    for name, tensor, shape in (
        ("q_length", q_length, (runs,)),
        ("q_start", q_start, (runs,)),
        ("kv_start", kv_start, (runs,)),
        ("kv_length", kv_length, (runs,)),
        ("chain_offsets", chain_offsets, (runs + 1,)),
        ("chain_spans", chain_spans, (chain_spans.shape[0] if chain_spans.dim() else 0, 2)),
    ):
        if tensor.shape != shape:
            raise _error(f"{name} has shape {list(tensor.shape)}; it must be {list(shape)}")
        if tensor.dtype != torch.int64 or not tensor.is_contiguous():
            raise _error(
                f"{name} is {tensor.dtype}, strides {tensor.stride()}; it must be dense int64"
            )
        if tensor.device != q.device:
            raise _error(f"{name} is on {tensor.device}, q on {q.device}")
    if not math.isfinite(scale):
        raise _error(f"scale is {scale}; it must be finite")


def check_values(
    q: torch.Tensor,
    k_pool: torch.Tensor,
    v_pool: torch.Tensor,
    q_start: torch.Tensor,
    q_length: torch.Tensor,
    kv_start: torch.Tensor,
    kv_length: torch.Tensor,
    chain_offsets: torch.Tensor,
    chain_spans: torch.Tensor,
    scale: float,
) -> None:
    """What the index tensors hold; waits for the device.

    Raises:
        KernelInputError: names the argument and the run.
    """
    rows, slots = q.shape[0], k_pool.shape[0]
    runs = list(
        zip(q_start.tolist(), q_length.tolist(), kv_start.tolist(), kv_length.tolist(), strict=True)
    )
    for s, (start, length, slot, own) in enumerate(runs):
        if length < 0 or own < length:
            raise _error(
                f"run {s} has q_length {length} and kv_length {own}; "
                "they must be 0 <= q_length <= kv_length"
            )
        if length and not 0 <= start <= rows - length:
            raise _error(f"run {s} holds rows {start} .. {start + length} of {rows}")
        if own and not 0 <= slot <= slots - own:
            raise _error(f"kv_start: run {s} holds slots {slot} .. {slot + own} of {slots}")
    held = sorted((start, length, s) for s, (start, length, _, _) in enumerate(runs) if length)
    for (start, length, s), (later, _, other) in pairwise(held):
        if start + length > later:
            raise _error(f"q_start: runs {s} and {other} overlap in row {later}")
    offsets, spans = chain_offsets.tolist(), chain_spans.tolist()
    if offsets[0] < 0 or offsets[-1] > len(spans) or offsets != sorted(offsets):
        raise _error(f"chain_offsets must grow from 0 to at most {len(spans)}, not {offsets}")
    for c, (slot, length) in enumerate(spans[offsets[0] : offsets[-1]], start=offsets[0]):
        if length < 0 or (length and not 0 <= slot <= slots - length):
            raise _error(f"chain_spans[{c}] holds slots {slot} .. {slot + length} of {slots}")


def _error(message: str) -> KernelInputError:
    return KernelInputError(f"tree_attention: {message}")
