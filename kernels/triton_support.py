"""Where Triton kernels run: CUDA devices new enough, and under the interpreter when asked for."""

from __future__ import annotations

import importlib
import os
from functools import cache
from importlib.util import find_spec
from typing import Any

import torch

from readoff.kernels.dispatch import Implementation, Site, Verdict

MINIMUM_CAPABILITY = (8, 0)
"""Ampere: the first with bf16 matrix instructions and asynchronous copies."""


def implementation(module: str, function: str, reason: str) -> Implementation[..., Any]:
    """The function of a module below `readoff.kernels` as the implementation "triton".

    The module is imported on its first call: importing an operator never imports Triton.
    """

    def run(*args: Any, **kwargs: Any) -> Any:
        return getattr(_load(module), function)(*args, **kwargs)

    def serves(site: Site) -> Verdict:
        served, why_not = served_by_triton(site)
        return served, reason if served else why_not

    return Implementation("triton", run, serves, forced=interpreted)


def served_by_triton(site: Site) -> Verdict:
    """Whether Triton kernels may be chosen at `site`, and why not."""
    if site.device != "cuda":
        return False, f"{site.device} tensors"
    if find_spec("triton") is None:
        return False, "the package triton isn't installed"
    if site.grad:
        return False, "gradients are wanted, and the Triton kernels have none"
    capability = _capability()
    if capability < MINIMUM_CAPABILITY:
        found, wanted = (".".join(map(str, c)) for c in (capability, MINIMUM_CAPABILITY))
        return False, f"compute capability {found}; the kernels need {wanted}"
    return True, ""


def interpreted(site: Site) -> Verdict:
    """Whether Triton's interpreter runs kernels on CPU tensors in this process."""
    if site.device != "cpu":
        return False, f"{site.device} tensors"
    if os.environ.get("TRITON_INTERPRET") != "1":
        return False, "CPU tensors, and TRITON_INTERPRET isn't 1"
    if find_spec("triton") is None:
        return False, "the package triton isn't installed"
    return True, "Triton's interpreter"


@cache
def _load(module: str) -> Any:
    return importlib.import_module(f"readoff.kernels.{module}")


@cache
def _capability() -> tuple[int, int]:
    return torch.cuda.get_device_capability()
