"""`readoff export merge`: a base and LoRA adapters as one Hugging Face folder."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from readoff.commands import options
from readoff.commands.download import LineProgress
from readoff.commands.output import note, print_json

if TYPE_CHECKING:
    from readoff.export.merged import Merged


class Stored(StrEnum):
    """The number format of the weights that are written."""

    AUTO = "auto"
    FP32 = "fp32"
    BF16 = "bf16"
    FP16 = "fp16"


def merge(
    out: Annotated[
        Path, typer.Option(metavar="DIR", help="The folder to write.", show_default=False)
    ],
    model: options.TorchModel = "demo",
    adapter: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ADAPTER",
            help="A LoRA adapter: folder or hub id. Several are merged in the order given.",
        ),
    ] = None,
    card: options.CardPath = None,
    revision: options.Revision = None,
    dtype: Annotated[
        Stored, typer.Option("--dtype", help="Of the result; auto: as the base stores it.")
    ] = Stored.AUTO,
    max_shard_size: Annotated[
        str, typer.Option(metavar="SIZE", help="The largest weights file, such as 500MB.")
    ] = "5GB",
    force: Annotated[bool, typer.Option("--force", help="Replace DIR if it exists.")] = False,
    json_output: options.Json = False,
) -> None:
    """Merge LoRA adapters into their base and write a Hugging Face folder.

    The sum is made in fp32 and rounded once. transformers and readoff load the folder like any
    other; decision.json carries template, calibration and digests along. The differences told at
    the end are those between the folder and the unrounded sum, on built-in probes.

    A GGUF file without an adapter is dequantised. With one it is refused, unless the adapter's
    training.json says that it was trained beside just this file.
    The folder holds the text model alone: no vision tower, no multi-token prediction.

    Examples:

        readoff export merge --model Qwen/Qwen3-0.6B --adapter my-adapter --out merged

        readoff export merge --model base --adapter first --adapter second --out merged --force

        readoff decide --model merged --request request.json
    """
    import torch

    from readoff.engine.runtime import choose_dtype
    from readoff.export import merge as merging
    from readoff.export.shards import parse_size

    limit = parse_size(max_shard_size)
    kind = None if dtype is Stored.AUTO else choose_dtype(dtype.value, torch.device("cpu"))
    merged = merging.merge(
        model,
        adapter or (),
        out,
        card=card,
        revision=revision,
        dtype=kind,
        max_shard_size=limit,
        force=force,
        progress=True if sys.stderr.isatty() else LineProgress(),
    )
    for text in merged.notes:
        note(f"note: {text}")
    if json_output:
        print_json(merged.to_json())
    else:
        print("\n".join(_lines(merged)))


def _lines(merged: Merged) -> list[str]:
    """The report: what was written, from what, and how exact it is."""
    count = len(merged.adapters)
    what = f"{count} adapter{'s' * (count != 1)} merged into {merged.base.name}"
    if merged.dequantised:
        what = f"{merged.base.name} dequantised from {merged.dequantised}"
    lines = [
        f"{what}: {merged.out}",
        f"weights    {merged.nbytes / 1e6:,.1f} MB, {merged.dtype}, {merged.tensors} tensors, "
        f"{merged.files} file{'s' * (merged.files != 1)}",
    ]
    if merged.untied:
        lines.append("head       no longer the embedding: an adapter changed one of the two")
    if merged.left_out:
        lines.append(f"left out   {', '.join(merged.left_out)}")
    if merged.difference is None:
        lines.append("exactness  not measured: no probe fits the model's context")
    else:
        found = merged.difference
        lines.append(
            f"exactness  max |Δlogit| {found.logit:.2g} (of {found.largest_logit:.1f}), "
            f"max |Δp| {found.probability:.2g}, "
            f"{found.changed} of {found.questions} answers changed"
        )
    digests = [(told.digest, told.name) for told in (merged.base, *merged.adapters)]
    digests.append((merged.digest, "the result"))
    return lines + [f"sha256     {digest}  {name}" for digest, name in digests]
