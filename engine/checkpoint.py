"""`Checkpoint`: the weights of one model as they are stored, read a tensor at a time.

Nothing is allocated for a model before its checkpoint has proved complete: opening one compares
all names and shapes with the config. Tensors are then copied in row blocks into memory that the
caller owns, so that loading never holds a second copy of anything large.
"""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal

import torch

from readoff.engine.config import ModelConfig
from readoff.engine.errors import CheckpointError
from readoff.engine.parameters import Shape, parameter_shapes

SMALL_BLOCK = 32_000
"""Elements converted at a time on the CPU: 125 KiB in fp32, which stays in a core's cache.

Just below the size at which torch splits an operation between threads. Converting weights is bound
by memory and gains little from threads, while on a busy machine the many short joins of a team of
threads were seen to take minutes in place of a second.
"""
LARGE_BLOCK = 1 << 21
"""The same where each block has a cost of its own (a copy to a device, a product): 8 MiB."""

HeadChoice = Literal["auto", "tie", "untie"]


class Checkpoint(ABC):
    """Stored weights under normalised names (see `parameters.parameter_shapes`).

    `config` describes the weights as they are read: a GGUF file or an adapter may untie a head.
    """

    config: ModelConfig

    @abstractmethod
    def read_rows(self, name: str, start: int, stop: int) -> torch.Tensor:
        """Rows [start, stop) of the first axis, on the CPU, in the stored dtype or fp32.

        The result may be a view of a mapped file: copy it, never write to it.
        """

    @abstractmethod
    def digest(self) -> str:
        """sha256 (hex) of everything that decides the numbers, adapters included; kept once known.

        Streams the files, about a second a gigabyte.
        """

    @property
    @abstractmethod
    def folders(self) -> tuple[Path, ...]:
        """Folders where a card or a calibration may lie beside the weights; the first one wins."""

    @property
    @abstractmethod
    def tokenizer_files(self) -> Path:
        """A folder with tokenizer.json and tokenizer_config.json."""

    def weights_digest(self) -> str:
        """sha256 of the base weights' files alone, as a decision card records it."""
        return self.digest()

    def adapter_digest(self) -> str | None:
        """sha256 of the adapters applied, None without one."""
        return None

    @property
    def adapter_folders(self) -> tuple[Path, ...]:
        """Those of `folders` that are adapters'; empty without one."""
        return ()

    def names(self) -> frozenset[str]:
        """All tensors; "lm_head.weight" is among them only if the head isn't tied."""
        return frozenset(parameter_shapes(self.config))

    def shape(self, name: str) -> Shape:
        """The shape of a tensor of `names()`; CheckpointError for any other name."""
        shape = parameter_shapes(self.config).get(name)
        if shape is None:
            raise CheckpointError(f"{self.folders[0]} has no tensor {name}.")
        return shape

    @torch.no_grad()
    def copy_into(self, name: str, dest: torch.Tensor) -> None:
        """Fill `dest`: any floating dtype and device, the tensor's exact shape.

        Values are rounded once, from the stored dtype (or from fp32 where it is computed) to
        `dest`'s. Beside `dest` it holds one block of rows, at most `LARGE_BLOCK` elements or one
        row. Raises CheckpointError.
        """
        shape = self.shape(name)
        if tuple(dest.shape) != shape or not dest.is_floating_point():
            raise CheckpointError(
                f"{name} has shape {list(shape)}, which {dest.dtype} {list(dest.shape)} can't hold."
            )
        limit = SMALL_BLOCK if dest.device.type == "cpu" else LARGE_BLOCK
        for start, stop in row_blocks(shape, limit):
            dest[start:stop].copy_(self.read_rows(name, start, stop))


def row_blocks(shape: Shape, limit: int = SMALL_BLOCK) -> Iterable[tuple[int, int]]:
    """Split the first axis into runs of at most `limit` elements (one row at least)."""
    width = 1
    for size in shape[1:]:
        width *= size
    step = max(1, limit // max(1, width))
    for start in range(0, shape[0], step):
        yield start, min(start + step, shape[0])


def open_checkpoint(path: Path, *, head: HeadChoice = "auto") -> Checkpoint:
    """Open a Hugging Face folder or a GGUF file and check that it is complete.

    `head` matters to GGUF files only (see `GgufCheckpoint`). Raises CheckpointError.
    """
    from readoff.engine.gguf_checkpoint import GgufCheckpoint
    from readoff.engine.safetensors_checkpoint import SafetensorsCheckpoint

    if (path / "pack.json").is_file():
        raise CheckpointError(
            f"{path} is a deployment pack, which holds no weights that torch reads. Open it with "
            "readoff.export.runtime.OnnxEngine, or give the model that it was exported from."
        )
    if path.is_dir():
        return SafetensorsCheckpoint(path)
    if path.is_file():
        return GgufCheckpoint(path, head=head)
    raise CheckpointError(f"{path} doesn't exist. Give a model folder or a .gguf file.")


def read_json(path: Path) -> dict[str, Any]:
    """Parse a JSON object from a file; CheckpointError if it is missing or isn't one."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise CheckpointError(f"{path} is missing; a model folder needs it.") from None
    except (OSError, ValueError, RecursionError) as error:
        raise CheckpointError(f"{path} can't be read as JSON ({error}).") from None
    if not isinstance(value, dict):
        raise CheckpointError(f"{path} holds {type(value).__name__}, not a JSON object.")
    return value


def digest_files(files: Iterable[Path]) -> str:
    """sha256 of one file; for several, the sha256 of their sorted `sha256  name` lines."""
    hashes = []
    for file in sorted(files):
        with file.open("rb") as stream:
            hashes.append((hashlib.file_digest(stream, "sha256").hexdigest(), file.name))
    if len(hashes) == 1:
        return hashes[0][0]
    lines = "".join(f"{value}  {name}\n" for value, name in hashes)
    return hashlib.sha256(lines.encode()).hexdigest()
