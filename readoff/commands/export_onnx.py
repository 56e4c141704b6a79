"""`readoff export onnx`: a model as a deployment pack that decides without torch."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from readoff.commands import options
from readoff.commands.download import LineProgress
from readoff.commands.output import note, print_json

if TYPE_CHECKING:
    from readoff.export.exported import Exported
    from readoff.export.onnx_export import Figures, Labels


class Flavour(StrEnum):
    """Which operators the graph is made of."""

    STANDARD = "standard"
    CONTRIB = "contrib"


class Precision(StrEnum):
    """Of weights and products."""

    FP32 = "fp32"
    INT8 = "int8"
    FP16 = "fp16"
    INT4 = "int4"


def onnx(
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
    flavour: Annotated[
        Flavour,
        typer.Option(help="standard: runs anywhere. contrib: ONNX Runtime's own, recent ones."),
    ] = Flavour.STANDARD,
    precision: Annotated[
        Precision, typer.Option(help="int8: faster on a CPU. fp16, int4: smaller.")
    ] = Precision.FP32,
    fine: Annotated[
        bool,
        typer.Option(
            "--fine", help="With int8: a third less error of probabilities, for a fifth more time."
        ),
    ] = False,
    labels: Annotated[
        str,
        typer.Option(
            metavar="all|card|FILE",
            help="Bake in what may be asked: the card's labels, or one question (wire JSON).",
        ),
    ] = "all",
    figures: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE",
            exists=True,
            dir_okay=False,
            help="Labelled decisions (JSON lines) to measure the pack on. May be repeated.",
        ),
    ] = None,
    threads: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="CPU threads of the check.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace DIR if it exists.")] = False,
    json_output: options.Json = False,
) -> None:
    """Write a pack: an ONNX graph with all that deciding with it needs, and no torch.

    Afterwards the graph is compared with the model in fp32, on texts of 1 to 200 tokens, with and
    without a past, alone and in rows of three. One that decides otherwise is deleted again.

    Examples:

        readoff export onnx --model Qwen/Qwen3-0.6B --adapter my-adapter --out pack

        readoff export onnx --out pack8 --precision int8 --figures labelled.jsonl

        readoff decide --model pack --request request.json
    """
    from readoff.export.errors import ParityError
    from readoff.export.onnx_export import export_onnx

    try:
        exported = export_onnx(
            model,
            adapter or (),
            out,
            flavour=flavour.value,
            precision=precision.value,
            fine=fine,
            labels=_labels(labels),
            card=card,
            revision=revision,
            figures=_figures(figures or []),
            threads=threads,
            force=force,
            progress=True if sys.stderr.isatty() else LineProgress(),
        )
    except ParityError as error:
        if error.table:
            print("\n".join(_table(error.table)), file=sys.stderr)
        raise
    for text in exported.notes:
        note(f"note: {text}")
    if json_output:
        print_json(exported.to_json())
    else:
        print("\n".join(_lines(exported)))


def _labels(told: str) -> Labels:
    """What --labels says. Raises ReadoffError for a file that holds no question."""
    from readoff.engine.errors import ExportError
    from readoff.engine.strict_json import loads
    from readoff.engine.wire import parse_request

    if told == "all":
        return "all"
    if told == "card":
        return "card"
    try:
        question = loads(Path(told).read_bytes())
    except OSError as error:
        raise ExportError(
            f"--labels is all, card, or a file with one question; {told} can't be read "
            f"({error.strerror})."
        ) from error
    request = {"model": "pack", "state": "", "questions": {"question": question}}
    return parse_request(request).questions["question"]


def _figures(files: list[Path]) -> Figures | None:
    """Labelled files are read before anything is built, so that a bad one costs nothing."""
    if not files:
        return None
    from readoff.bench.export_figures import figures_of, read_labelled
    from readoff.bench.quality.files import names_of

    asks = {name: read_labelled(file) for name, file in zip(names_of(files), files, strict=True)}
    return lambda subject: figures_of(subject, asks)


def _lines(exported: Exported) -> list[str]:
    """The report: what was written, the check, what was measured."""
    pack, parity, made = exported.pack, exported.parity, exported.provenance
    graph = pack.options
    what = [made.base.name, *(adapter.name for adapter in made.adapters)]
    lines = [
        f"{' + '.join(what)}: {exported.out}",
        f"graph      {graph.flavour}, {graph.precision}{' (fine)' * graph.fine}, "
        f"{pack.nbytes / 1e6:,.1f} MB, onnxruntime {pack.runtime} or newer",
    ]
    if made.dequantised:
        lines.append(f"weights    dequantised from {made.dequantised}")
    if made.left_out:
        lines.append(f"left out   {', '.join(made.left_out)}")
    lines += ["check      against the model in fp32", *_table(parity.table())]
    lines.append(
        f"prompts    mean |Δp| {parity.mean:.2g}, {parity.same:.0%} of the answers the same"
    )
    for name, told in pack.figures.items():
        lines.append(f"{name}: {_told(told)}")
    lines += [f"sha256     {made.base.digest}  {made.base.name}"]
    return lines + [f"sha256     {one.digest}  {one.name}" for one in made.adapters]


def _table(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Columns, each as wide as its widest entry."""
    cells = [list(rows[0]), *([_cell(value) for value in row.values()] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return [
        "  "
        + "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in cells
    ]


def _cell(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "NO"
    if isinstance(value, float):
        return f"{value:.2g}"
    return "" if value is None else str(value)


def _told(value: object) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_cell(entry)}" for name, entry in value.items())
    return _cell(value)
