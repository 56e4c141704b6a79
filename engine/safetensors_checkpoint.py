"""`SafetensorsCheckpoint`: a Hugging Face model folder, one file or many shards."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open

from readoff.engine.checkpoint import Checkpoint, digest_files, read_json, row_blocks
from readoff.engine.config import ModelConfig
from readoff.engine.errors import CheckpointError
from readoff.engine.parameters import EMBEDDING, HEAD, Shape, check_parameters, normalise

SINGLE = "model.safetensors"
INDEX = "model.safetensors.index.json"
_FLOATS = ("F64", "F32", "F16", "BF16")


class SafetensorsCheckpoint(Checkpoint):
    """A folder with config.json and safetensors files, mapped rather than read.

    Opening it reads every shard's header and checks the complete set of names, shapes and dtypes
    against the config. Raises CheckpointError, naming the file or tensor and the remedy.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._stored: dict[str, _Tensor] = {}
        self._digest: str | None = None
        files = _weight_files(folder)
        config = ModelConfig.from_hf(read_json(folder / "config.json"), str(folder / "config.json"))
        for stored, tensor in _tensors(files):
            name = normalise(stored)
            if name is None:
                continue
            if name in self._stored:
                raise CheckpointError(f"{tensor.file}: {name} is stored twice, last as {stored}.")
            if tensor.dtype not in _FLOATS:
                raise CheckpointError(
                    f"{tensor.file}: {stored} has dtype {tensor.dtype}; only floating-point "
                    "weights can be loaded. Use the unquantised checkpoint."
                )
            self._stored[name] = tensor
        self._files = files
        self.config = self._resolve_head(config)
        shapes = {name: tensor.shape for name, tensor in self._stored.items()}
        check_parameters(self.config, shapes, str(folder))

    def _resolve_head(self, config: ModelConfig) -> ModelConfig:
        """A tied config whose file stores a head too: equal means tied, different means untied.

        That is what transformers 5 does, and what such files mean: the flag was left behind when
        a head was trained or merged. A head without an embedding stands for both.
        """
        if not config.tie_word_embeddings or HEAD not in self._stored:
            return config
        if EMBEDDING not in self._stored:
            self._stored[EMBEDDING] = self._stored.pop(HEAD)
            return config
        head, embedding = self._stored[HEAD], self._stored[EMBEDDING]
        if head.shape == embedding.shape and not all(
            torch.equal(head.rows(*block), embedding.rows(*block))
            for block in row_blocks(head.shape)
        ):
            return replace(config, tie_word_embeddings=False)
        del self._stored[HEAD]
        return config

    def read_rows(self, name: str, start: int, stop: int) -> torch.Tensor:
        return self._stored[name].rows(start, stop)

    def digest(self) -> str:
        if self._digest is None:
            self._digest = digest_files(self._files)
        return self._digest

    @property
    def folders(self) -> tuple[Path, ...]:
        return (self.folder,)

    @property
    def tokenizer_files(self) -> Path:
        return self.folder


class _Tensor:
    """One stored tensor, read through the mapping of its file."""

    def __init__(self, file: Path, view: Any) -> None:
        self.file = file
        self._view = view
        self.shape: Shape = tuple(view.get_shape())
        self.dtype: str = view.get_dtype()

    def rows(self, start: int, stop: int) -> torch.Tensor:
        rows: torch.Tensor = self._view[start:stop]
        return rows


def _tensors(files: dict[Path, frozenset[str] | None]) -> Iterator[tuple[str, _Tensor]]:
    """All tensors of all files; `files` maps to the names an index promises (None: whatever)."""
    for file, promised in files.items():
        try:
            stored: Any = safe_open(file, framework="pt")  # its methods carry no types
            names: list[str] = stored.keys()
        except FileNotFoundError:
            raise CheckpointError(
                f"The shard {file.name} is missing from {file.parent}. Download it again."
            ) from None
        except (SafetensorError, OSError) as error:
            raise CheckpointError(
                f"{file} can't be read ({error}). It is truncated or damaged; download it again."
            ) from None
        absent = sorted((promised or frozenset()) - set(names))
        if absent:
            raise CheckpointError(
                f"{file}: the index promises {absent[0]} (and {len(absent) - 1} more) here, but "
                "the shard doesn't hold it. Index and shards don't belong together."
            )
        for name in names:
            yield name, _Tensor(file, stored.get_slice(name))


def _weight_files(folder: Path) -> dict[Path, frozenset[str] | None]:
    if (folder / SINGLE).exists():
        return {folder / SINGLE: None}
    if (folder / INDEX).exists():
        return _index(folder / INDEX)
    if (folder / "adapter_config.json").exists():
        raise CheckpointError(
            f"{folder} holds a LoRA adapter, not a model. Give it as the source (its base is "
            "looked up) or as the adapter of another source."
        )
    pickles = [*folder.glob("*.bin"), *folder.glob("*.pt"), *folder.glob("*.pth")]
    if pickles:
        raise CheckpointError(
            f"{folder} has only pickled weights ({pickles[0].name}), which can run code when they "
            "are read. Save the model as safetensors (save_pretrained does) and use that folder."
        )
    raise CheckpointError(f"{folder} has no {SINGLE} and no {INDEX}; it isn't a model folder.")


def _index(path: Path) -> dict[Path, frozenset[str] | None]:
    weight_map = read_json(path).get("weight_map")
    if not isinstance(weight_map, dict) or not weight_map:
        raise CheckpointError(f"{path} has no weight_map; download the checkpoint again.")
    shards: dict[str, set[str]] = {}
    for name, file in weight_map.items():
        # Files beside the index only: a name with a path in it could point anywhere.
        if (
            not isinstance(file, str)
            or file in ("", "..")
            or Path(file).name != file
            or "\\" in file
        ):
            raise CheckpointError(f"{path}: {name} points outside the folder ({file!r}).")
        shards.setdefault(file, set()).add(name)
    return {path.parent / file: frozenset(names) for file, names in sorted(shards.items())}
