"""Triton's interpreter with a bf16 like that of a GPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch


def correct_bf16(monkeypatch: pytest.MonkeyPatch) -> None:
    """The interpreter multiplies the bit patterns of bf16, and rounds to it towards zero.

    Here the factors of products are widened first, and rounding is to the nearest.
    """
    from triton.language import bfloat16, float32
    from triton.runtime.interpreter import InterpreterBuilder, TensorHandle

    cast, dot = InterpreterBuilder.cast_impl, InterpreterBuilder.create_dot

    def widened(x: Any) -> Any:
        if x.dtype.scalar != bfloat16:
            return x
        return TensorHandle((x.data.astype(np.uint32) << 16).view(np.float32), float32)

    def cast_impl(self: Any, x: Any, target: Any) -> Any:
        here, there = x.dtype.scalar, target.scalar
        if (here, there) == (float32, bfloat16):
            rounded = torch.from_numpy(np.ascontiguousarray(x.data)).bfloat16()
            return TensorHandle(rounded.view(torch.int16).numpy().view(np.uint16), bfloat16)
        return widened(x) if (here, there) == (bfloat16, float32) else cast(self, x, target)

    def create_dot(self: Any, a: Any, b: Any, *rest: Any) -> Any:
        return dot(self, widened(a), widened(b), *rest)

    monkeypatch.setattr(InterpreterBuilder, "cast_impl", cast_impl)
    monkeypatch.setattr(InterpreterBuilder, "create_dot", create_dot)
