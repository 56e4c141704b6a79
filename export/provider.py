"""`Provider`: where ONNX Runtime runs a pack's graph, and why there. No torch in this file.

CUDA has not run here: there was no GPU when this was written. It needs `readoff[onnx-gpu]`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from readoff.engine.errors import ReadoffError
from readoff.export.errors import PackError
from readoff.export.pack import Pack, is_older
from readoff.export.session import CPU, load_runtime

CUDA = "CUDAExecutionProvider"
Choice = Literal["auto", "cpu", "cuda"]


@dataclass(frozen=True)
class Provider:
    """ONNX Runtime's name of it, and for each one there is why it was taken or not."""

    name: str
    reasons: Mapping[str, str] = field(default_factory=dict)

    @property
    def device(self) -> Literal["cpu", "cuda"]:
        """Where its tensors lie."""
        return "cuda" if self.name == CUDA else "cpu"

    @property
    def names(self) -> tuple[str, ...]:
        """What a session is given: operators without a kernel there run on the CPU."""
        return (self.name,) if self.name == CPU else (self.name, CPU)


def choose_provider(choice: str, pack: Pack) -> Provider:
    """The provider for `pack` in the installed runtime, whose version is checked too.

    "auto" is CUDA where it is there and has kernels for the graph's products, else the CPU.

    Raises PackError where onnxruntime is missing or older than the pack needs, or the provider
    isn't there; ReadoffError for a choice that is none.
    """
    if choice not in ("auto", "cpu", "cuda"):
        raise ReadoffError(f'The provider is "auto", "cpu" or "cuda", not {choice!r}.')
    runtime = load_runtime()
    check_runtime(str(runtime.__version__), pack)
    there = CUDA in runtime.get_available_providers()
    missing = 'not in this onnxruntime (pip install "readoff[onnx-gpu]" has it)'
    if choice == "cuda":
        if not there:
            known = ", ".join(runtime.get_available_providers())
            raise PackError(
                f'provider="cuda" was asked for, and {CUDA} is {missing}. It has {known}.'
            )
        return Provider(CUDA, {CUDA: "asked for", CPU: "CUDA was asked for"})
    if choice == "cpu":
        return Provider(CPU, {CPU: "asked for", CUDA: "the CPU was asked for"})
    if not there:
        return Provider(CPU, {CUDA: missing, CPU: "what is left"})
    precision = pack.options.precision
    if precision in ("int8", "int4"):
        why = f"the products of {precision} graphs are made for CPUs (fp16 is for GPUs)"
        return Provider(CPU, {CUDA: why, CPU: "what is left"})
    narrow = "" if precision == "fp16" else ", though fp32 is slow there: export with fp16"
    return Provider(CUDA, {CUDA: f"present{narrow}", CPU: "CUDA is there"})


def loaded_provider(wanted: Provider, loaded: str, choice: str) -> Provider:
    """What a session really took first: the runtime falls back without an error.

    Raises PackError where CUDA was asked for by name.
    """
    if loaded == wanted.name:
        return wanted
    why = "its libraries can't be loaded (CUDA and cuDNN of the versions that onnxruntime wants)"
    if choice == "cuda":
        raise PackError(f"{CUDA} was asked for, and {why}. Install them, or leave it out.")
    return Provider(CPU, {CUDA: why, CPU: "what is left"})


def check_runtime(version: str, pack: Pack) -> None:
    """Raise PackError where an ONNX Runtime of `version` is older than `pack` needs."""
    if is_older(version, pack.runtime):
        raise PackError(
            f"The pack {pack.folder} needs onnxruntime {pack.runtime} or newer, and {version} is "
            f'installed: pip install "onnxruntime>={pack.runtime}".'
        )
