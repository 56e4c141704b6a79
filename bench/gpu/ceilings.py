"""What this device can do at best: a large product in each dtype, and copying memory."""

from __future__ import annotations

from typing import Any

import torch

from readoff.bench.gpu.clock import Clock

SIZE = 8192
"""Rows, columns and depth of the square product."""

COPY = 2 << 30
"""Bytes that are copied: many times any cache."""


def measure(clock: Clock, dtype: torch.dtype, size: int = SIZE, copy: int = COPY) -> dict[str, Any]:
    """FLOP/s of a product of random numbers in `dtype` and in fp8 (None where there is none), and
    bytes/s of a copy, counting what is read and what is written. The best of many."""
    device = clock.device
    a = torch.randn(size, size, device=device).to(dtype)
    b = torch.randn(size, size, device=device).to(dtype)
    product = _best(clock, lambda: a @ b.t())
    source = torch.empty(copy // 4, dtype=torch.int32, device=device).fill_(1)
    target = torch.empty_like(source)
    copying = _best(clock, lambda: target.copy_(source))
    flops = 2.0 * size**3
    return {
        "dtype": str(dtype).removeprefix("torch."),
        "flops_per_s": flops / product,
        "fp8_flops_per_s": _fp8(clock, a, b),
        "bytes_per_s": 2.0 * source.nbytes / copying,
        "size": size,
    }


def _fp8(clock: Clock, a: torch.Tensor, b: torch.Tensor) -> float | None:
    if clock.device.type != "cuda":
        return None
    try:
        x, y = (t.to(torch.float8_e4m3fn) for t in (a, b))
        one = torch.ones((), device=clock.device)
        seconds = _best(
            clock,
            lambda: torch._scaled_mm(x, y.t(), one, one, out_dtype=torch.bfloat16),
        )
    except RuntimeError:  # a GPU without such products
        return None
    return 2.0 * len(a) ** 3 / seconds


def _best(clock: Clock, run: Any) -> float:
    """Seconds of the fastest of a few dozen."""
    clock.wait()
    times = [clock.device_time(run, warmups=1).p50 for _ in range(3)]
    return max(min(times), 1e-6) / 1e3
