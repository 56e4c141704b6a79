"""Where and how a model runs: device, dtype, threads, and the heap it leaves warm."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import torch

from readoff.engine.errors import ReadoffError
from readoff.engine.host import free_host_memory
from readoff.kernels.dispatch import OPS, NoImplementationError, Site

_DTYPES = {
    "fp32": torch.float32,
    "float32": torch.float32,
    "bf16": torch.bfloat16,
    "bfloat16": torch.bfloat16,
    "fp16": torch.float16,
    "float16": torch.float16,
}

_LARGEST_HEAP_BLOCK = (32 << 20) - (64 << 10)


def choose_device(device: str | torch.device = "auto") -> torch.device:
    """The device named, or "auto": the first CUDA device where there is one, else the CPU.

    Raises ReadoffError for a device that isn't there.
    """
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        chosen = torch.device(device)
    except RuntimeError as error:
        raise ReadoffError(f'No such device: "{device}". Use "auto", "cpu" or "cuda".') from error
    if chosen.type not in ("cpu", "cuda"):
        raise ReadoffError(f'Device "{device}" is not supported. Use "auto", "cpu" or "cuda".')
    if chosen.type == "cuda" and not torch.cuda.is_available():
        raise ReadoffError(
            f'Device "{device}" was asked for, but this torch sees no CUDA device. '
            'Use device="cpu", or install a CUDA build of torch.'
        )
    return chosen


def choose_dtype(dtype: str | torch.dtype, device: torch.device) -> torch.dtype:
    """The dtype named, or "auto": bf16 where the device multiplies it natively, else fp32.

    Raises ReadoffError for any other.
    """
    if isinstance(dtype, torch.dtype):
        if dtype not in _DTYPES.values():
            raise ReadoffError(f"dtype {dtype} is not supported. Use fp32, bf16 or fp16.")
        return dtype
    if dtype == "auto":
        native = bf16_is_native() if device.type == "cpu" else torch.cuda.is_bf16_supported()
        return torch.bfloat16 if native else torch.float32
    if dtype not in _DTYPES:
        raise ReadoffError(f'dtype "{dtype}" is not supported. Use "auto", fp32, bf16 or fp16.')
    return _DTYPES[dtype]


def bf16_is_native() -> bool:
    """Whether this processor multiplies bf16 itself, so that it is faster than fp32."""
    if not torch.backends.mkldnn.is_available():
        return False
    checks = ("_is_avx512_bf16_supported", "_is_amx_tile_supported")
    return any(bool(getattr(torch.cpu, name, lambda: False)()) for name in checks)


def free_memory(device: torch.device) -> int:
    """Bytes that a device has to give: on CPUs what Linux says is available, elsewhere a guess."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    return free_host_memory()


def deterministic_kernels(device: torch.device) -> tuple[tuple[str, str], ...]:
    """(operator, implementation) of the deterministic mode: those whose rows don't depend on what
    else is in the pass."""
    wanted = "fixed" if device.type == "cpu" else "triton"
    chosen = ((name, "tiled" if (name, wanted) == ("linear", "fixed") else wanted) for name in OPS)
    return tuple((name, how) for name, how in sorted(chosen) if how in OPS[name].implementations)


def explain_kernels(site: Site, layout: str = "plain") -> dict[str, dict[str, str]]:
    """For every operator: each implementation, and why it would or wouldn't run at `site`.

    `layout` is that of the linear layers' weights. Raises ReadoffError where READOFF_KERNELS asks
    for what isn't there.
    """
    told = {}
    for name, op in sorted(OPS.items()):
        try:
            told[name] = op.explain(replace(site, layout=layout) if name == "linear" else site)
        except NoImplementationError as error:
            raise ReadoffError(
                f"The kernels asked for can't run here: {error}. Check READOFF_KERNELS."
            ) from error
    return told


@contextmanager
def threads(count: int | None) -> Iterator[None]:
    """Run with `count` threads and give the process its own number back. None changes nothing.

    torch keeps one number for the process: a thread that uses torch for the first time meanwhile
    starts with `count`.
    """
    before = torch.get_num_threads()
    if count is None or count == before:
        yield
        return
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def keep_heap() -> None:
    """Let freed activations be reused instead of going back to the system (glibc only).

    glibc takes blocks beyond a threshold from the system and returns them at once; every pass then
    pays for the same pages again, which was measured at more time than the arithmetic of the
    row-wise operators (x10). The threshold follows the largest block freed so far, up to
    32 MiB (mallopt(3), M_MMAP_THRESHOLD): freeing one such block is enough.
    """
    if sys.platform == "linux":
        torch.empty(_LARGEST_HEAP_BLOCK, dtype=torch.uint8)  # freed at once, never touched
