"""The checkpoint at the bottom of a pile of adapters: how it is stored, and what isn't loaded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open

from readoff.engine.checkpoint import Checkpoint, read_json
from readoff.engine.gguf_checkpoint import GgufCheckpoint
from readoff.engine.gguf_file import GgufFile
from readoff.engine.lora import WEIGHTS, AdaptedCheckpoint
from readoff.engine.parameters import EMBEDDING, HEAD, normalise
from readoff.engine.safetensors_checkpoint import INDEX, SINGLE, SafetensorsCheckpoint

_PLAIN_KINDS = ("F32", "F16", "BF16", "F64")
_PARTS = {"visual": "vision tower", "mtp": "multi-token prediction"}


def base_of(checkpoint: Checkpoint) -> Checkpoint:
    """`checkpoint` without its adapters."""
    while isinstance(checkpoint, AdaptedCheckpoint):
        checkpoint = checkpoint.base
    return checkpoint


def quantisation(base: Checkpoint) -> str | None:
    """The block formats of a quantised GGUF file, as "Q4_K, Q6_K"; None where numbers are plain.

    Quantised folders are refused when they are opened.
    """
    kinds = sorted(_kinds(base).keys() - set(_PLAIN_KINDS))
    return ", ".join(kinds) or None


def stored_dtypes(base: Checkpoint, names: Iterable[str]) -> dict[str, torch.dtype]:
    """The dtype to write each of `names` in, so that nothing unadapted changes.

    A folder's tensors keep theirs (an untied head gets the embedding's, fp64 becomes fp32). GGUF
    stores vectors in fp32 whatever they were, so there all tensors get one: fp16 or fp32 where the
    matrices are that, else bf16.
    """
    if isinstance(base, GgufCheckpoint):
        kinds = _kinds(base)
        most = max(kinds, key=kinds.__getitem__)
        dtype = {"F16": torch.float16, "F32": torch.float32}.get(most, torch.bfloat16)
        return dict.fromkeys(names, dtype)
    known = base.names()

    def stored(name: str) -> torch.dtype:
        if name == HEAD and name not in known:
            name = EMBEDDING
        dtype = base.read_rows(name, 0, 1).dtype
        return torch.float32 if dtype == torch.float64 else dtype

    return {name: stored(name) for name in names}


def left_out(base: Checkpoint) -> list[str]:
    """What a folder stores and the text model lacks, as "vision tower (153 tensors)"."""
    if not isinstance(base, SafetensorsCheckpoint):
        return []
    return _parts(_stored_names(base.folder))


def adapter_parts_left_out(folder: Path) -> list[str]:
    """The same of an adapter: matrices for parts that aren't loaded."""
    return _parts(name.removeprefix("base_model.model.") for name in _keys(folder / WEIGHTS))


def _parts(names: Iterable[str]) -> list[str]:
    counts: Counter[str] = Counter()
    for name in names:
        if normalise(name) is None:
            part = next((told for key, told in _PARTS.items() if key in name.split(".")[:2]), None)
            counts[part or "other"] += part is not None  # rotary tables are no loss
    return [
        f"{part} ({count} tensor{'s' * (count != 1)})"
        for part, count in sorted(counts.items())
        if count
    ]


def _stored_names(folder: Path) -> Iterable[str]:
    if (folder / SINGLE).exists():
        return _keys(folder / SINGLE)
    return list(read_json(folder / INDEX)["weight_map"])


def _keys(file: Path) -> list[str]:
    stored: Any = safe_open(file, framework="pt")
    return list(stored.keys())


def _kinds(base: Checkpoint) -> Counter[str]:
    """How many bytes of a GGUF file's matrices are stored in each of gguf's types."""
    kinds: Counter[str] = Counter()
    if isinstance(base, GgufCheckpoint):
        for tensor in GgufFile(base.path).tensors.values():
            if len(tensor.shape) > 1:
                kinds[tensor.kind] += tensor.nbytes
    return kinds
