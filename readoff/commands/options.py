"""The options that several commands take, and the engine they describe."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypedDict, Unpack

import typer
from typer.models import OptionInfo

from readoff.commands.download import fetch_demo_for
from readoff.commands.output import progress
from readoff.engine.errors import ReadoffError, SourceError
from readoff.engine.host import check_threads

if TYPE_CHECKING:
    from readoff.engine.engine import Engine
    from readoff.export.runtime import OnnxEngine


class Dtype(StrEnum):
    """The number format of the weights and of the arithmetic."""

    AUTO = "auto"
    FP32 = "fp32"
    BF16 = "bf16"
    FP16 = "fp16"


class Quantise(StrEnum):
    """8-bit linear layers."""

    INT8 = "int8"
    FP8 = "fp8"


class Serving(TypedDict, total=False):
    """Those options of `readoff.Serving` that commands set."""

    cache_bytes: int | None
    deterministic: bool


def _check_threads(count: int | None) -> int | None:
    try:
        check_threads(count)
    except ReadoffError as error:
        raise typer.BadParameter(str(error)) from error
    return count


def _model(what: str) -> OptionInfo:
    option: OptionInfo = typer.Option("--model", "-m", metavar="MODEL", help=what)
    return option


_ANY = "a Hugging Face folder or hub id, a .gguf file"
Model = Annotated[
    str, _model(f"demo, demo-base (without its adapter), {_ANY}, a LoRA adapter, or a pack.")
]
TorchModel = Annotated[
    str, _model(f"demo, demo-base (without its adapter), {_ANY}, or a LoRA adapter.")
]
"""Where a pack won't do."""
BareModel = Annotated[str, _model(f"demo (here without its adapter), {_ANY}, or a LoRA adapter.")]
"""Where demo is the base."""
Adapter = Annotated[
    str | None,
    typer.Option(metavar="ADAPTER", help="A LoRA adapter: folder, hub id, or demo (that of demo)."),
]
CardPath = Annotated[
    Path | None,
    typer.Option(
        "--card", metavar="FILE", exists=True, help="A decision card instead of the model's own."
    ),
]
Revision = Annotated[
    str | None, typer.Option(metavar="REV", help="Branch, tag or commit of a hub id.")
]
Device = Annotated[
    str, typer.Option(metavar="DEVICE", help="auto, cpu, cuda or cuda:N (auto: CUDA when present).")
]
DtypeOption = Annotated[Dtype, typer.Option("--dtype", help="auto: bf16 where it is native.")]
Threads = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        min=1,
        callback=_check_threads,
        help="CPU threads (default: as torch chooses).",
    ),
]
Quantize = Annotated[
    Quantise | None, typer.Option("--quantize", help="Linear layers in 8 bits: faster, less exact.")
]
Deterministic = Annotated[
    bool, typer.Option("--deterministic", help="Equal bits in any company, at a price in time.")
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document instead.")]


def load_engine(
    model: str,
    *,
    adapter: str | None = None,
    card: Path | None = None,
    revision: str | None = None,
    device: str = "auto",
    dtype: Dtype = Dtype.AUTO,
    threads: int | None = None,
    quantize: Quantise | None = None,
    **serving: Unpack[Serving],
) -> Engine:
    """`Engine.from_pretrained` with progress on stderr.

    Raises:
        ReadoffError: whatever the engine has against the model, adapter or card; a pack.
        ModuleNotFoundError: torch isn't installed.
    """
    from readoff.export.pack import is_pack

    if is_pack(model):
        raise SourceError(
            f"{model} is a pack, and this command needs the model's own weights. Give the model "
            "that it was exported from; `readoff decide` and the server take packs."
        )
    from readoff.engine.engine import Engine

    fetch_demo_for(model)
    with progress(f"loading {model}"):
        return Engine.from_pretrained(
            model,
            adapter=adapter,
            card=card,
            revision=revision,
            device=device,
            dtype=dtype.value,
            threads=threads,
            quantize=None if quantize is None else quantize.value,
            **serving,
        )


def load_pack(
    model: str,
    *,
    adapter: str | None = None,
    card: Path | None = None,
    revision: str | None = None,
    device: str = "auto",
    dtype: Dtype = Dtype.AUTO,
    threads: int | None = None,
    quantize: Quantise | None = None,
    **serving: Unpack[Serving],
) -> OnnxEngine:
    """`load_engine` for a deployment pack; torch isn't needed.

    Raises ReadoffError for whatever is wrong with it, and for an option that a pack can't take.
    """
    from readoff.export.opening import open_engine
    from readoff.export.runtime import OnnxEngine

    with progress(f"loading {model}"):
        engine = open_engine(
            model,
            adapter=adapter,
            card=card,
            revision=revision,
            device=device,
            dtype=dtype.value,
            threads=threads,
            quantize=None if quantize is None else quantize.value,
            **serving,
        )
    assert isinstance(engine, OnnxEngine)
    return engine
