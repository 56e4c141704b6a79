"""Latencies of the cases, eager against captured, beside what the device could do at best."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import torch

from readoff.bench.gpu.cases import Case
from readoff.bench.gpu.clock import Clock, Spread
from readoff.bench.gpu.models import Work, work_of
from readoff.bench.gpu.runner import Runner


def measure(
    runner: Runner,
    clock: Clock,
    case: Case,
    ceilings: dict[str, Any],
    weight_bytes: float,
    *,
    eager: bool = True,
) -> dict[str, Any]:
    """One case. "device": the passes alone, by events; "host": from batches to numbers on the
    host; "eager": the same without graphs. Rates and shares are those of "device"."""
    runner.fill(case)
    work = work_of(runner.backbone.config, case.passes, weight_bytes)
    told: dict[str, Any] = {"name": case.name, "tokens": case.tokens, "passes": len(case.passes)}
    forward = runner.forward(case, True)
    if runner.was_captured(case.passes, forward):
        with runner.padded():
            told["host"] = asdict(clock.host(lambda: runner.run(case, True)))
            device = [_passes(runner, clock, case, n) for n in range(len(case.passes))]
        told["device"] = asdict(_sum(device))
        told |= rates(work, sum(d.p50 for d in device), ceilings, weight_bytes)
    else:
        told["problem"] = forward.problem or "a pass has no bucket"
    if eager:
        told["eager"] = asdict(clock.host(lambda: runner.run(case, False)))
        if "host" in told:
            told["captured_speedup"] = told["eager"]["p50"] / told["host"]["p50"]
    return told


def _passes(runner: Runner, clock: Clock, case: Case, number: int) -> Spread:
    launch = runner.forward(case, True).launcher(case.passes[number])
    assert launch is not None
    return clock.device_time(launch)


def _sum(parts: Sequence[Spread]) -> Spread:
    """Passes that follow one another; sums of percentiles overstate the tails a little."""
    return Spread(
        sum(p.p50 for p in parts),
        sum(p.p95 for p in parts),
        sum(p.p99 for p in parts),
        min(p.count for p in parts),
    )


def rates(
    work: Work, milliseconds: float, ceilings: dict[str, Any], weight_bytes: float
) -> dict[str, Any]:
    """What was done a second, and its share of the ceilings; `floor_ms` is the larger of the time
    that the arithmetic and the bytes need at the ceilings."""
    seconds = milliseconds / 1e3
    narrow = weight_bytes < 1.5 and ceilings.get("fp8_flops_per_s")
    peak = float(ceilings["fp8_flops_per_s"] if narrow else ceilings["flops_per_s"])
    bandwidth = float(ceilings["bytes_per_s"])
    floor = max(work.flops / peak, work.bytes / bandwidth)
    return {
        "TFLOP/s": work.flops / seconds / 1e12,
        "GB/s": work.bytes / seconds / 1e9,
        "share_of_matmul": work.flops / seconds / peak,
        "share_of_bandwidth": work.bytes / seconds / bandwidth,
        "floor_ms": floor * 1e3,
        "share_of_floor": floor / seconds,
    }


def launches(runner: Runner, case: Case, top: int = 30) -> dict[str, Any]:
    """Where the device time of one captured run goes, by kernel, and how many kernels that is."""
    launch = runner.forward(case, True).launcher(case.passes[0])
    if launch is None or not runner.cuda:
        return {"problem": "nothing was captured"}
    activities = [torch.profiler.ProfilerActivity.CUDA]
    launch()
    torch.cuda.synchronize()
    with torch.profiler.profile(activities=activities) as seen:
        launch()
        torch.cuda.synchronize()
    found = [
        (event.key, int(event.count), float(event.self_device_time_total))
        for event in seen.key_averages()
        if event.self_device_time_total > 0
    ]
    found.sort(key=lambda entry: -entry[2])
    return {
        "case": case.name,
        "kernels": sum(count for _, count, _ in found),
        "microseconds": sum(time for _, _, time in found),
        "top": [
            {"kernel": name[:90], "count": count, "us": time} for name, count, time in found[:top]
        ],
    }
