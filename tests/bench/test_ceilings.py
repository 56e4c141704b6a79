"""Ceilings and peak memory: numbers of the right size, from small measurements."""

from __future__ import annotations

import time

import pytest
import torch

from readoff.bench import memory
from readoff.bench.ceilings import measure_ceilings
from readoff.bench.memory import PeakMemory, anonymous_bytes
from readoff.kernels.linear import linear as op


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_ceilings_are_finite_rates(dtype: torch.dtype) -> None:
    start = time.perf_counter()
    before = sum(op.calls.values())
    found = measure_ceilings(dtype, seconds=0.05, gemm=(64, 128, 256), read=4 << 20)
    assert time.perf_counter() - start < 20
    assert sum(op.calls.values()) > before  # the product is the engine's own
    assert 1e6 < found.flops_per_s < 1e15
    assert 1e6 < found.bytes_per_s < 1e14


def test_threads_are_given_back() -> None:
    before = torch.get_num_threads()
    measure_ceilings(torch.float32, thread_count=1, seconds=0.0, gemm=(8, 8, 8), read=1024)
    assert torch.get_num_threads() == before


@pytest.mark.skipif(anonymous_bytes() is None, reason="only Linux tells")
def test_the_peak_is_seen_although_it_is_over() -> None:
    with PeakMemory(interval=0.001) as watch:
        start = watch.peak
        block = torch.ones(64 << 18)  # 64 MiB
        time.sleep(0.05)
        del block
    assert start is not None
    assert watch.peak is not None
    assert watch.peak - start >= 60 << 20


def test_without_proc_there_is_no_peak(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_STATUS", memory.Path("/nowhere/status"))
    with PeakMemory() as watch:
        pass
    assert watch.peak is None
