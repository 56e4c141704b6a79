"""What an export is made from: a base with adapters, opened, named, and the card that fits it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from readoff.engine.adapter_record import recorded
from readoff.engine.card import Card
from readoff.engine.checkpoint import Checkpoint, digest_files
from readoff.engine.errors import CardError, ExportError
from readoff.engine.loading import find_card
from readoff.engine.lora import CONFIG, WEIGHTS, AdaptedCheckpoint
from readoff.engine.progress import Progress
from readoff.engine.source import resolve
from readoff.export.base import base_of
from readoff.export.merged import Origin


def open_adapted(
    source: str | Path,
    adapters: Sequence[str | Path],
    revision: str | None,
    progress: Progress | bool | None,
) -> Checkpoint:
    """`source` with `adapters` merged in, in this order. Raises as `resolve` does."""
    checkpoint = resolve(source, adapters[0] if adapters else None, revision, progress=progress)
    for adapter in adapters[1:]:
        # Opened on the source too: whether it fits by name and shape is decided there.
        fitting = resolve(source, adapter, revision, progress=progress)
        assert isinstance(fitting, AdaptedCheckpoint)
        checkpoint = AdaptedCheckpoint(checkpoint, fitting.folder)
    return checkpoint


def check_base(source: str | Path, checkpoint: Checkpoint, quantised: str | None) -> None:
    """Raise ExportError where an adapter would be added to quantised numbers, unless `readoff
    train` recorded that it was trained beside exactly these."""
    if checkpoint.adapter_folders and quantised and not _trained_beside(checkpoint):
        raise ExportError(
            f"{source} is quantised ({quantised}), and an adapter was trained beside other "
            "numbers. Merge it into the unquantised base. If there is none, write this base as a "
            "folder first (export merge without an adapter dequantises it) and merge into that."
        )


def _trained_beside(checkpoint: Checkpoint) -> bool:
    """Whether all adapters were, one after the other."""
    while isinstance(checkpoint, AdaptedCheckpoint):
        own = _own_digest(checkpoint.folder)
        if recorded(checkpoint.folder) != (checkpoint.base.digest(), own):
            return False
        checkpoint = checkpoint.base
    return True


def _own_digest(adapter: Path) -> str:
    return digest_files([adapter / CONFIG, adapter / WEIGHTS])


def card_of(checkpoint: Checkpoint, path: str | Path | None) -> tuple[Card, list[str]]:
    """The card for the result, and what to say about it.

    Of several adapters the card of one was fitted to something else than their sum: it is left
    out, unless it is asked for by its path. Raises CardError.
    """
    try:
        return find_card(checkpoint, path), []
    except CardError as error:
        if path is not None or len(checkpoint.adapter_folders) < 2:
            raise
        return Card.default(), [f"no decision card is taken over: {error}"]


def source_paths(checkpoint: Checkpoint) -> list[Path]:
    """The files and folders that are read, which an export never replaces."""
    base = base_of(checkpoint)
    path = getattr(base, "path", None)  # a GGUF file's folder may hold anything else
    return [*checkpoint.adapter_folders, *([path] if path is not None else base.folders)]


def adapter_origins(checkpoint: Checkpoint) -> tuple[Origin, ...]:
    """The adapters in the order in which they were added."""
    return tuple(
        Origin(folder.name, _own_digest(folder)) for folder in reversed(checkpoint.adapter_folders)
    )


def name_of(source: str | Path) -> str:
    """The name of a model without the place where it lies."""
    return Path(source).expanduser().resolve().name if Path(source).exists() else str(source)
