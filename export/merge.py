"""`merge`: a base and LoRA adapters become one Hugging Face folder.

Each value is computed as base + every adapter's change in fp32 and rounded once (see
`readoff.engine.lora`), a block of rows at a time: no tensor is ever held whole. The result is then
read back and compared with the unmerged sum, kept in fp32, a layer at a time.

The folder is text-only. Vision towers and multi-token-prediction heads are left out and named:
nothing here runs them, an adapter's changes to them would be lost, and a prediction head of the
base doesn't fit merged weights.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch

from readoff.engine.card import Card
from readoff.engine.card_fields import CardTemplate, Digests
from readoff.engine.checkpoint import Checkpoint, open_checkpoint
from readoff.engine.errors import ExportError
from readoff.engine.gguf_checkpoint import GgufCheckpoint
from readoff.engine.loading import load_renderer
from readoff.engine.parameters import parameter_shapes
from readoff.engine.progress import Progress, showing
from readoff.engine.prompt import Renderer
from readoff.export.base import (
    adapter_parts_left_out,
    base_of,
    left_out,
    quantisation,
    stored_dtypes,
)
from readoff.export.difference import compare
from readoff.export.hf_folder import (
    BESIDE,
    TOKENIZER_FILES,
    copy_files,
    hf_config,
    write_config,
)
from readoff.export.merged import Merged, Origin
from readoff.export.shards import SHARD_SIZE, Entry, Shard, plan_shards, write_shards
from readoff.export.sources import (
    adapter_origins,
    card_of,
    check_base,
    name_of,
    open_adapted,
    source_paths,
)
from readoff.export.target import check_target, new_export

_BESIDE_WEIGHTS = 64 << 20
"""Bytes that the tokenizer and the rest take at most, for the check of the disk."""


def merge(
    source: str | Path,
    adapters: Sequence[str | Path],
    out: str | Path,
    *,
    card: str | Path | None = None,
    revision: str | None = None,
    dtype: torch.dtype | None = None,
    max_shard_size: int = SHARD_SIZE,
    force: bool = False,
    progress: Progress | bool | None = None,
) -> Merged:
    """Write `source` with `adapters` merged in, in this order, to the folder `out`.

    Args:
        source: what `Engine.from_pretrained` takes; an adapter as the source counts as the first.
        adapters: folders or hub ids. None at all is an error, but for a GGUF file, which is then
            dequantised.
        out: a new folder, or with `force` one that is replaced once the new one is complete.
        card: a decision card for the result; by default the one that belongs to what is merged.
        revision: the hub revision of `source`.
        dtype: of all tensors; None keeps what the base stores (see `stored_dtypes`).
        max_shard_size: bytes of a weights file; one tensor may exceed it.
        progress: a callable, or whether to show a bar; None shows one on a terminal.

    Raises ReadoffError: AdapterError and CheckpointError for what doesn't fit or is missing,
    CardError for a card whose digests are others, ExportError for the rest. Nothing is left behind.
    """
    out = Path(out)
    check_target(out, force=force)
    checkpoint = open_adapted(source, adapters, revision, progress)
    base = base_of(checkpoint)
    dequantised = quantisation(base)
    check_base(source, checkpoint, dequantised)
    if not checkpoint.adapter_folders and not isinstance(base, GgufCheckpoint):
        raise ExportError(f"There is nothing to merge into {source}. Give an adapter: --adapter.")
    found, notes = card_of(checkpoint, card)
    renderer = load_renderer(checkpoint, found)
    dtypes = stored_dtypes(base, parameter_shapes(checkpoint.config))
    shards = _plan(checkpoint, dtypes, dtype, max_shard_size)
    main = _main_dtype(shards)
    size = sum(shard.nbytes for shard in shards)
    with (
        showing(progress) as report,
        new_export(
            out, force=force, sources=source_paths(checkpoint), size=size + _BESIDE_WEIGHTS
        ) as draft,
    ):
        write_shards(draft, shards, checkpoint, lambda done, of: report("merging", done, of))
        write_config(draft, hf_config(base, checkpoint.config, main, renderer.tokenizer))
        copy_files(checkpoint.tokenizer_files, TOKENIZER_FILES, draft)
        copy_files(base.folders[0], BESIDE, draft)
        written = _read_back(draft, checkpoint)
        merged = Merged(
            out=out,
            base=Origin(name_of(source), base.weights_digest()),
            adapters=adapter_origins(checkpoint),
            digest=written.digest(),
            dtype=str(main).removeprefix("torch."),
            nbytes=size,
            files=len(shards),
            tensors=sum(len(shard.entries) for shard in shards),
            untied=base.config.tie_word_embeddings and not checkpoint.config.tie_word_embeddings,
            dequantised=dequantised,
            left_out=_left_out(checkpoint),
            difference=compare(
                checkpoint,
                written,
                renderer,
                found,
                lambda done, of: report("comparing", 2 * size * done // of, 2 * size),
            ),
            notes=tuple(notes),
        )
        _result_card(found, merged, renderer).save(draft)
    return merged


def _plan(
    checkpoint: Checkpoint,
    dtypes: dict[str, torch.dtype],
    forced: torch.dtype | None,
    limit: int,
) -> list[Shard]:
    shapes = parameter_shapes(checkpoint.config)
    entries = (Entry(name, shape, forced or dtypes[name]) for name, shape in shapes.items())
    return plan_shards(entries, limit)


def _main_dtype(shards: Sequence[Shard]) -> torch.dtype:
    sizes: Counter[torch.dtype] = Counter()
    for shard in shards:
        for entry in shard.entries:
            sizes[entry.dtype] += entry.nbytes
    return max(sizes, key=sizes.__getitem__)


def _read_back(draft: Path, checkpoint: Checkpoint) -> Checkpoint:
    written = open_checkpoint(draft)
    config = replace(checkpoint.config, dtype=written.config.dtype)
    if written.config != config:
        raise ExportError(
            f"The config.json written describes another model than the base: {written.config}, "
            f"not {config}. This is a fault of readoff; please report it with the base's config."
        )
    return written


def _result_card(card: Card, merged: Merged, renderer: Renderer) -> Card:
    """`card` for the merged weights: no adapter is left."""
    template = renderer.template
    return replace(
        card,
        template=CardTemplate(template.id, template.digest, template.order),
        digests=Digests(weights=merged.digest, tokenizer=renderer.tokenizer.digest),
        made_from=merged.provenance(),
    )


def _left_out(checkpoint: Checkpoint) -> tuple[str, ...]:
    told = left_out(base_of(checkpoint))
    for folder in reversed(checkpoint.adapter_folders):
        told += [f"of {folder.name}: {part}" for part in adapter_parts_left_out(folder)]
    return tuple(told)
