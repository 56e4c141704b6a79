"""What the row-wise operators refuse: on the host at every call; slots and rows under
READOFF_CHECK=1."""

from __future__ import annotations

import math
from typing import NoReturn

import torch

from readoff.kernels.dispatch import KernelInputError

FLOATS = (torch.float32, torch.bfloat16, torch.float16)


def rms_norm(x: torch.Tensor, weight: torch.Tensor, eps: float, plus_one: bool) -> None:
    """Shapes, dtypes, layouts and devices."""
    _matrix("x", x)
    _weight("weight", weight, x)
    _eps(eps)


def add_rms_norm(
    x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, eps: float, plus_one: bool
) -> None:
    """Shapes, dtypes, layouts and devices."""
    _matrix("x", x)
    _like("residual", residual, x, "x")
    _weight("weight", weight, x)
    _eps(eps)


def swiglu(gate_up: torch.Tensor, size: int) -> None:
    """Shape, dtype and layout."""
    _matrix("gate_up", gate_up)
    if size < 1 or gate_up.shape[1] != 2 * size:
        _refuse("gate_up", gate_up, f"[T, {2 * size}], a gate and a product of {size} features")


def gated_rms_norm(x: torch.Tensor, z: torch.Tensor, weight: torch.Tensor, eps: float) -> None:
    """Shapes, dtypes, layouts and devices."""
    _heads("x", x)
    _like("z", z, x, "x")
    _weight("weight", weight, x)
    _eps(eps)


def sigmoid_gate(x: torch.Tensor, gate: torch.Tensor) -> None:
    """Shapes, dtypes, layouts and devices."""
    if x.ndim not in (2, 3) or x.dtype not in FLOATS or x.stride(-1) != 1:
        _refuse("x", x, "[T, K] or [T, H, D] in fp32, bf16 or fp16, the last axis adjacent")
    _like("gate", gate, x, "x")


def norm_rope_write(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    q_weight: torch.Tensor | None,
    k_weight: torch.Tensor | None,
    eps: float,
    plus_one: bool,
    cos: torch.Tensor,
    sin: torch.Tensor,
    q_rows: torch.Tensor | None,
    k_pool: torch.Tensor,
    v_pool: torch.Tensor,
    slots: torch.Tensor,
) -> None:
    """Shapes, dtypes, layouts and devices."""
    _heads("q", q)
    _heads("k", k)
    (queries, _, dim), (tokens, kv_heads, _) = q.shape, k.shape
    if k.dtype != q.dtype or k.shape[2] != dim or k.device != q.device:
        _refuse("k", k, f"[T, kv heads, {dim}], dtype and device of q")
    _like("v", v, k, "k")
    if q_weight is not None:
        _weight("q_weight", q_weight, q)
    if k_weight is not None:
        _weight("k_weight", k_weight, q)
    _eps(eps)
    half = cos.shape[-1] if cos.ndim else 0
    if not 0 < 2 * half <= dim:
        _refuse("cos", cos, f"[{tokens}, R/2] with R at most the {dim} dimensions of a head")
    _contiguous("cos", cos, (tokens, half), torch.float32, q)
    _contiguous("sin", sin, (tokens, half), torch.float32, q)
    if q_rows is not None:
        _contiguous("q_rows", q_rows, (queries,), torch.int64, q)
    elif queries != tokens:
        _refuse("q", q, f"of {tokens} rows like k where there are no q_rows")
    if k_pool.ndim != 3 or k_pool.shape[1:] != k.shape[1:] or k_pool.stride(2) != 1:
        _refuse("k_pool", k_pool, f"[slots, {kv_heads}, {dim}], the last axis adjacent")
    if k_pool.dtype not in FLOATS or k_pool.device != q.device:
        _refuse("k_pool", k_pool, "in fp32, bf16 or fp16, on the device of q")
    _like("v_pool", v_pool, k_pool, "k_pool")
    if v_pool.stride() != k_pool.stride():
        _refuse("v_pool", v_pool, f"laid out like k_pool, strides {list(k_pool.stride())}")
    _contiguous("slots", slots, (tokens,), torch.int64, q)


def norm_rope_write_values(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    q_weight: torch.Tensor | None,
    k_weight: torch.Tensor | None,
    eps: float,
    plus_one: bool,
    cos: torch.Tensor,
    sin: torch.Tensor,
    q_rows: torch.Tensor | None,
    k_pool: torch.Tensor,
    v_pool: torch.Tensor,
    slots: torch.Tensor,
) -> None:
    """Query rows within the tokens; slots within the pools, no slot twice."""
    if q_rows is not None and len(q_rows):
        _range("q_rows", q_rows, 0, len(k), "the rows of k")
    if len(slots):
        _range("slots", slots, -1, len(k_pool), "the slots of k_pool (-1 for padding)")
    used = slots[slots >= 0]
    if len(used.unique()) != len(used):
        raise KernelInputError("slots names a slot twice; two tokens can't be kept in one.")


def _matrix(name: str, x: torch.Tensor) -> None:
    if x.ndim != 2 or x.dtype not in FLOATS or x.stride(1) != 1:
        _refuse(name, x, "[T, K] in fp32, bf16 or fp16, elements of a row adjacent")


def _heads(name: str, x: torch.Tensor) -> None:
    if x.ndim != 3 or x.dtype not in FLOATS or x.stride(2) != 1:
        _refuse(name, x, "[T, heads, D] in fp32, bf16 or fp16, the last axis adjacent")


def _like(name: str, found: torch.Tensor, x: torch.Tensor, what: str) -> None:
    if (
        found.shape != x.shape
        or found.dtype != x.dtype
        or found.device != x.device
        or found.stride(-1) != 1
    ):
        wanted = f"{list(x.shape)} {_word(x.dtype)} on {x.device} like {what}"
        _refuse(name, found, f"{wanted}, the last axis adjacent")


def _weight(name: str, weight: torch.Tensor, x: torch.Tensor) -> None:
    width = x.shape[-1]
    if weight.dtype not in FLOATS:
        _refuse(name, weight, f"[{width}] in fp32, bf16 or fp16")
    _contiguous(name, weight, (width,), weight.dtype, x)


def _eps(eps: float) -> None:
    if not (math.isfinite(eps) and eps >= 0.0):
        raise KernelInputError(f"eps is {eps!r}; it must be finite and not negative.")


def _contiguous(
    name: str, found: torch.Tensor, shape: tuple[int, ...], dtype: torch.dtype, x: torch.Tensor
) -> None:
    if (
        found.shape != shape
        or found.dtype != dtype
        or found.device != x.device
        or not found.is_contiguous()
    ):
        _refuse(name, found, f"{list(shape)} {_word(dtype)} on {x.device}, contiguous")


def _range(name: str, found: torch.Tensor, low: int, end: int, what: str) -> None:
    least, most = int(found.min()), int(found.max())
    if least < low or most >= end:
        raise KernelInputError(
            f"{name} goes from {least} to {most}; {what} are {max(low, 0)} to {end - 1}."
        )


def _refuse(name: str, found: torch.Tensor, wanted: str) -> NoReturn:
    raise KernelInputError(
        f"{name} is {list(found.shape)} {_word(found.dtype)} on {found.device}, "
        f"strides {list(found.stride())}; it must be {wanted}."
    )


def _word(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
