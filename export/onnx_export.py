"""`export_onnx`: a base, adapters merged in, becomes a deployment pack that was checked.

The graph is written beside the place it goes to, compared with our own backbone (see `parity`), and
moved there only if it decides like it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from readoff.engine.card import Card
from readoff.engine.checkpoint import Checkpoint
from readoff.engine.errors import ExportError
from readoff.engine.loading import load_renderer
from readoff.engine.parameters import EMBEDDING
from readoff.engine.progress import Progress, showing
from readoff.engine.prompt import Renderer
from readoff.engine.questions import Question
from readoff.export.baked import bank, fixed
from readoff.export.base import base_of, left_out, quantisation, stored_dtypes
from readoff.export.errors import PackError
from readoff.export.exported import Exported, Provenance
from readoff.export.graph.options import FixedLabels, Flavour, GraphOptions, LabelBank, Precision
from readoff.export.hf_folder import hf_config
from readoff.export.merged import Origin
from readoff.export.pack import GRAPH, is_older, oldest_runtime
from readoff.export.pack_writing import write_pack
from readoff.export.parity import check, require
from readoff.export.probes import parity_probes
from readoff.export.session import GraphSession, load_runtime
from readoff.export.sources import (
    adapter_origins,
    card_of,
    check_base,
    name_of,
    open_adapted,
    source_paths,
)
from readoff.export.target import check_target, new_export

if TYPE_CHECKING:
    import onnx_ir as ir

Labels = Question | Literal["all", "card"]
"""What can be asked: any token's logit, those of the card's labels, or one question alone."""

Figures = Callable[["Subject"], Mapping[str, Any]]
"""Measures a graph that passed its check; what it returns stands in the pack and its card."""

_BESIDE_WEIGHTS = 64 << 20
"""Bytes that the tokenizer and the rest take at most, for the check of the disk."""


@dataclass(frozen=True)
class Subject:
    """A graph that is to be measured, and the model that it was made from."""

    checkpoint: Checkpoint
    renderer: Renderer
    card: Card
    session: GraphSession


def export_onnx(
    source: str | Path,
    adapters: Sequence[str | Path],
    out: str | Path,
    *,
    flavour: Flavour = "standard",
    precision: Precision = "fp32",
    fine: bool = False,
    labels: Labels = "all",
    card: str | Path | None = None,
    revision: str | None = None,
    figures: Figures | None = None,
    threads: int | None = None,
    force: bool = False,
    progress: Progress | bool | None = None,
) -> Exported:
    """Write `source` with `adapters` merged in, in this order, as a pack to the folder `out`.

    Args:
        source: what `Engine.from_pretrained` takes. GGUF files are dequantised.
        adapters: folders or hub ids.
        out: a new folder, or with `force` one that is replaced once the new one is complete.
        flavour, precision, fine: see `GraphOptions`.
        labels: "all" leaves the whole vocabulary head in the file; "card" its labels' rows alone;
            a question bakes that one in, with the card's prior and temperature for its kind.
        card: a decision card; by default the one that belongs to what is exported.
        revision: the hub revision of `source`.
        figures: measures the graph once it passed its check.
        threads: of ONNX Runtime during the check.
        progress: a callable, or whether to show a bar; None shows one on a terminal.

    Raises ReadoffError: AdapterError and CheckpointError for what doesn't fit or is missing,
    CardError, ParityError for a graph that doesn't decide like the model, PackError for a runtime
    that is missing or too old, ExportError for the rest. Nothing is left behind.
    """
    out = Path(out)
    check_target(out, force=force)
    _check_tools(GraphOptions(flavour=flavour, precision=precision, fine=fine))
    checkpoint = open_adapted(source, adapters, revision, progress)
    base = base_of(checkpoint)
    dequantised = quantisation(base)
    check_base(source, checkpoint, dequantised)
    found, notes = card_of(checkpoint, card)
    renderer = load_renderer(checkpoint, found)
    options = GraphOptions(
        flavour=flavour,
        precision=precision,
        fine=fine,
        labels=_labels(labels, renderer, found),
    )
    made_from = Provenance(
        base=Origin(name_of(source), base.weights_digest()),
        adapters=adapter_origins(checkpoint),
        dequantised=dequantised,
        left_out=tuple(left_out(base)),
    )
    model, size = _build(checkpoint, options)
    with (
        showing(progress) as report,
        new_export(
            out, force=force, sources=source_paths(checkpoint), size=size + _BESIDE_WEIGHTS
        ) as draft,
    ):
        _write(model, draft / GRAPH, lambda done: report("writing", done, size))
        session = GraphSession(draft / GRAPH, checkpoint.config, options, threads=threads)
        limit = checkpoint.config.max_position_embeddings
        parity = check(
            checkpoint,
            session,
            parity_probes(renderer, options, limit),
            progress=lambda done, of: report("checking", size * done // of, size),
        )
        require(parity, options)
        subject = Subject(checkpoint, renderer, found, session)
        measured = dict(figures(subject)) if figures else {}
        del session, subject  # it holds the file
        main = stored_dtypes(base, [EMBEDDING])[EMBEDDING]
        pack = write_pack(
            draft,
            name=name_of(adapters[-1] if adapters else source),
            config=hf_config(base, checkpoint.config, main, renderer.tokenizer),
            options=options,
            tokenizer_files=checkpoint.tokenizer_files,
            card=replace(found, made_from=made_from.to_json(options, measured)),
            weights=checkpoint.weights_digest(),
            adapter=checkpoint.adapter_digest(),
            parity=parity.table(),
            figures=measured,
        )
    return Exported(out, replace(pack, folder=out), parity, made_from, tuple(notes))


def _check_tools(options: GraphOptions) -> None:
    """Raise ExportError where what builds a graph is missing, PackError where what runs it is
    missing or too old: known before anything is read."""
    try:
        import_module("onnx_ir")
    except ImportError as error:
        raise ExportError(
            f'Exporting needs onnx-ir ({error}): pip install "readoff[torch,export]".'
        ) from error
    found, needed = load_runtime().__version__, oldest_runtime(options)
    if is_older(found, needed):
        raise PackError(
            f"This graph needs onnxruntime {needed} or newer, and {found} is installed, so that it "
            "can't be checked. Update onnxruntime, or export another flavour or precision."
        )


def _labels(labels: Labels, renderer: Renderer, card: Card) -> LabelBank | FixedLabels | None:
    if labels == "all":
        return None
    if labels == "card":
        return bank(renderer.alphabet)
    return fixed(renderer.alphabet, card, labels)


def _build(checkpoint: Checkpoint, options: GraphOptions) -> tuple[ir.Model, int]:
    """The graph, and how many bytes its weights have."""
    from readoff.export.graph.model import build_model

    model = build_model(checkpoint, options)
    tensors = (value.const_value for value in model.graph.initializers.values())
    return model, sum(tensor.nbytes for tensor in tensors if tensor is not None)


def _write(model: ir.Model, path: Path, progress: Callable[[int], None]) -> None:
    from readoff.export.graph.save import save

    save(model, path, progress)
