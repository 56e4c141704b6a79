"""Facts about this machine and this installation, as `readoff info` tells them."""

from __future__ import annotations

import importlib
import pkgutil
import platform
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

from readoff.engine.fetch import demo_path

if TYPE_CHECKING:
    import torch

PACKAGES = (
    "readoff",
    "torch",
    "triton",
    "transformers",
    "tokenizers",
    "safetensors",
    "gguf",
    "onnxruntime",
    "numpy",
)
INSTRUCTION_SETS = (
    "avx2",
    "avx512_f",
    "avx512_vnni",
    "avx512_bf16",
    "avx512_fp16",
    "amx_tile",
    "amx_bf16",
    "amx_int8",
    "amx_fp16",
    "neon",
    "bf16",
    "sve",
)
"""The ones that decide how fast matrix products are, by torch's names for them."""


def describe(device: str = "auto", dtype: str = "auto") -> dict[str, Any]:
    """One JSON-ready dictionary; what only torch can tell is None or empty where it is missing."""
    facts: dict[str, Any] = {
        "versions": {"python": platform.python_version()}
        | {name: _version(name) for name in PACKAGES},
        "platform": platform.platform(),
        "processor": _processor(),
        "device": None,
        "dtype": None,
        "devices": [],
        "instruction_sets": [],
        "threads": None,
        "demo_model": _demo_model(),
        "captured_forward": None,
        "kernels": None,
    }
    try:
        import torch  # noqa: F401
    except ImportError:
        return facts
    return facts | _with_torch(device, dtype)


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _demo_model() -> str:
    """Where the demonstration model lies, or would."""
    path = demo_path()
    return str(path) if path.exists() else f"not fetched yet ({path})"


def _processor() -> str:
    """The processor's own name where the system tells it."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as lines:
            for line in lines:
                if line.startswith("model name"):
                    return line.partition(":")[2].strip()
    except OSError:
        pass  # not Linux
    return platform.processor() or platform.machine()


def _with_torch(device: str, dtype: str) -> dict[str, Any]:
    import torch

    from readoff.engine.runtime import choose_device, choose_dtype

    chosen = choose_device(device)
    number_format = choose_dtype(dtype, chosen)
    cuda = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    return {
        "device": str(chosen),
        "dtype": str(number_format).removeprefix("torch."),
        "devices": ["cpu", *cuda],
        "instruction_sets": _instruction_sets(),
        "threads": torch.get_num_threads(),
        "captured_forward": _captured(chosen, number_format),
        "kernels": _operators(chosen, number_format),
    }


def _instruction_sets() -> list[str]:
    import torch

    if not hasattr(torch.cpu, "get_capabilities"):  # an older torch
        return [torch.backends.cpu.get_cpu_capability().lower()]
    found = torch.cpu.get_capabilities()
    return [name for name in INSTRUCTION_SETS if found.get(name)]


def _captured(device: torch.device, dtype: torch.dtype) -> str:
    """Whether passes run as CUDA graphs, or why not."""
    from readoff.kernels.dispatch import Site
    from readoff.kernels.triton_support import served_by_triton

    served, why_not = served_by_triton(Site(device.type, dtype))
    return "yes, after a warm-up" if served else f"no: {why_not}"


def _operators(device: torch.device, dtype: torch.dtype) -> dict[str, dict[str, str]]:
    """For each operator, which implementation inference would take, and why not the others."""
    import torch

    import readoff.kernels
    from readoff.engine.loading import packing_serves
    from readoff.engine.runtime import explain_kernels
    from readoff.kernels.dispatch import Site

    for folder in pkgutil.iter_modules(readoff.kernels.__path__):
        if folder.ispkg:
            importlib.import_module(f"readoff.kernels.{folder.name}")
    from readoff.kernels.linear import pack

    packed = (
        packing_serves(dtype, device)
        and pack(torch.zeros(16, 16, dtype=dtype, device=device)).is_mkldnn
    )
    return explain_kernels(Site(device.type, dtype), "packed" if packed else "plain")
