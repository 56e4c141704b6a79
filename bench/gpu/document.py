"""What a run tells: hardware and versions, and a few lines for people on stderr."""

from __future__ import annotations

import platform
import sys
from typing import Any

import torch

from readoff.bench.report.commit import commit


def hardware(device: torch.device) -> dict[str, Any]:
    """Of the device, its driver's software and the host."""
    told: dict[str, Any] = {
        "device": str(device),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "triton": _version("triton"),
        "host": platform.processor() or platform.machine(),
        "threads": torch.get_num_threads(),
        "commit": commit(),
    }
    if device.type == "cuda":
        seen = torch.cuda.get_device_properties(device)
        told |= {
            "name": seen.name,
            "capability": f"{seen.major}.{seen.minor}",
            "memory_GiB": seen.total_memory / 2**30,
            "processors": seen.multi_processor_count,
            "cuda": torch.version.cuda,
        }
    return told


def say(text: str) -> None:
    """To people, on stderr: stdout ends with the document."""
    print(text, file=sys.stderr, flush=True)


def line(case: dict[str, Any]) -> str:
    """One case for people."""
    host, device, eager = (case.get(key) for key in ("host", "device", "eager"))
    parts = [f"{case['name']:<36} {case['tokens']:>5} tokens"]
    if device and host:
        parts.append(
            f"device {device['p50']:8.3f} / {device['p99']:8.3f} ms   host {host['p50']:8.3f} / "
            f"{host['p99']:8.3f} ms (p50 / p99)   {case['TFLOP/s']:6.1f} TFLOP/s "
            f"{case['GB/s']:7.0f} GB/s   {case['share_of_floor']:.0%} of the floor"
        )
    if eager:
        parts.append(f"eager {eager['p50']:8.3f} ms")
    return "   ".join([*parts, case.get("problem", "")])


def _version(package: str) -> str | None:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(package)
    except PackageNotFoundError:
        return None
