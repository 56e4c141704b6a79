"""Safetensors files written a block of rows at a time.

The library's own writer wants every tensor of a file in memory. The format doesn't ask for that:
a length, a JSON header with each tensor's place, then the bytes one after the other
(https://github.com/huggingface/safetensors#format).
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import torch

from readoff.engine.checkpoint import Checkpoint, row_blocks
from readoff.engine.errors import ExportError
from readoff.engine.parameters import Shape
from readoff.engine.safetensors_checkpoint import INDEX, SINGLE

DTYPES = {torch.float32: "F32", torch.bfloat16: "BF16", torch.float16: "F16"}
"""What may be written, with the format's name for it."""

SHARD_SIZE = 5_000_000_000
"""Bytes of a file by default."""

_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "KI": 2**10, "MI": 2**20, "GI": 2**30}


@dataclass(frozen=True)
class Entry:
    """One tensor to write."""

    name: str
    shape: Shape
    dtype: torch.dtype

    @property
    def nbytes(self) -> int:
        """Its size in the file."""
        return math.prod(self.shape) * self.dtype.itemsize


@dataclass(frozen=True)
class Shard:
    """One file, its tensors in the order of their bytes."""

    file: str
    entries: tuple[Entry, ...]

    @property
    def nbytes(self) -> int:
        """The size of its tensors; the header comes to that."""
        return sum(entry.nbytes for entry in self.entries)


def parse_size(text: str) -> int:
    """Bytes of a size such as "5GB", "500MB" or "2GiB". Raises ExportError."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMG]?I?)B?\s*", text.upper(), re.ASCII)
    size = int(float(match[1]) * _UNITS[match[2]]) if match and match[2] in _UNITS else 0
    if size < 1:
        raise ExportError(f'"{text}" is no size of a file. Write "5GB", "500MB" or "2GiB".')
    return size


def plan_shards(entries: Iterable[Entry], limit: int = SHARD_SIZE) -> list[Shard]:
    """Files of at most `limit` bytes, tensors in their order; one that is larger has its own."""
    groups: list[list[Entry]] = [[]]
    size = 0
    for entry in entries:
        if groups[-1] and size + entry.nbytes > limit:
            groups.append([])
            size = 0
        groups[-1].append(entry)
        size += entry.nbytes
    count = len(groups)
    names = [f"model-{n:05d}-of-{count:05d}.safetensors" for n in range(1, count + 1)]
    names = [SINGLE] if count == 1 else names
    # Wide numbers first, so that each tensor begins at a multiple of its own size.
    return [
        Shard(name, tuple(sorted(group, key=lambda entry: -entry.dtype.itemsize)))
        for name, group in zip(names, groups, strict=True)
    ]


def write_shards(
    folder: Path,
    shards: Sequence[Shard],
    checkpoint: Checkpoint,
    progress: Callable[[int, int], None] = lambda done, of: None,
) -> None:
    """Write the tensors of `checkpoint`, each value rounded once, and an index if there are many.

    Holds a block of rows at a time. `progress(bytes written, bytes in all)` is called after each
    tensor. Raises ExportError for a value that isn't finite, or not any more once rounded.
    """
    total, done = sum(shard.nbytes for shard in shards), 0
    for shard in shards:
        with (folder / shard.file).open("wb") as file:
            file.write(_header(shard.entries))
            for entry in shard.entries:
                _write_tensor(file, entry, checkpoint)
                done += entry.nbytes
                progress(done, total)
    if len(shards) > 1:
        places = {entry.name: shard.file for shard in shards for entry in shard.entries}
        index = {"metadata": {"total_size": total}, "weight_map": dict(sorted(places.items()))}
        (folder / INDEX).write_text(json.dumps(index, indent=2) + "\n", encoding="utf-8")


def _header(entries: Iterable[Entry]) -> bytes:
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    start = 0
    for entry in entries:
        place = [start, start + entry.nbytes]
        header[entry.name] = {
            "dtype": DTYPES[entry.dtype],
            "shape": list(entry.shape),
            "data_offsets": place,
        }
        start = place[1]
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text


@torch.no_grad()
def _write_tensor(file: BinaryIO, entry: Entry, checkpoint: Checkpoint) -> None:
    for start, stop in row_blocks(entry.shape):
        rows = checkpoint.read_rows(entry.name, start, stop)
        block = rows.to(entry.dtype).contiguous()
        if not torch.isfinite(block).all():
            if torch.isfinite(rows).all():
                raise ExportError(
                    f"{entry.name} has values that {entry.dtype} can't hold. Use a wider dtype."
                )
            raise ExportError(
                f"{entry.name} has values that aren't finite numbers: the base is damaged, or the "
                "adapter belongs to another."
            )
        file.write(block.view(torch.uint8).numpy().data)
