"""What this machine can do at best, measured at the start: matrix products and reading memory."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import torch

from readoff.engine.runtime import threads
from readoff.kernels.linear import linear, pack

GEMM = (1024, 4096, 4096)
"""Rows, outputs and inputs of the product."""

READ = 512 << 20
"""Bytes that are read through: beyond what most caches hold."""


@dataclass(frozen=True)
class Ceilings:
    """FLOP/s of one large product in the dtype, and bytes/s of reading memory once through."""

    flops_per_s: float
    bytes_per_s: float


def measure_ceilings(
    dtype: torch.dtype,
    device: torch.device | str = "cpu",
    thread_count: int | None = None,
    *,
    seconds: float = 1.5,
    gemm: tuple[int, int, int] = GEMM,
    read: int = READ,
) -> Ceilings:
    """Measure both for about `seconds` each; the best try counts.

    The product is the one that the engine's linear layers use, weight packed. Reading is a sum,
    which needs no arithmetic to speak of.
    """
    where = torch.device(device)
    rows, outputs, inputs = gemm
    with threads(thread_count), torch.inference_mode():
        x = torch.ones(rows, inputs, dtype=dtype, device=where)
        weight = torch.ones(outputs, inputs, dtype=dtype, device=where)
        packed = pack(weight)
        product = _best(lambda: linear(x, packed, None), where, seconds)
        memory = torch.zeros(read // 4, dtype=torch.float32, device=where)
        reading = _best(memory.sum, where, seconds)
    return Ceilings(2.0 * rows * outputs * inputs / product, memory.nbytes / reading)


def _best(run: Callable[[], object], device: torch.device, seconds: float) -> float:
    """The shortest of as many runs as fit, two at least; the first one, cold, doesn't count."""
    run()
    best, count = float("inf"), 0
    end = time.perf_counter() + seconds
    while count < 2 or time.perf_counter() < end:
        _wait(device)
        start = time.perf_counter()
        run()
        _wait(device)
        best = min(best, time.perf_counter() - start)
        count += 1
    return best


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
