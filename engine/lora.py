"""`AdaptedCheckpoint`: a checkpoint with a LoRA adapter merged in as its rows are read.

Merging is `W + scale · B @ A`, in fp32, rounded once when the rows are copied out. An adapted
checkpoint is a checkpoint itself, so adapters stack: each adds to what the one before it gives, and
nothing is rounded in between.

A tied head and its embedding are one matrix in the base but two modules to an adapter. If either
is adapted on its own, the result is untied: exactly what the model computed while it was trained.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open

from readoff.engine.checkpoint import LARGE_BLOCK, Checkpoint, digest_files, row_blocks
from readoff.engine.errors import AdapterError
from readoff.engine.lora_config import LoraConfig
from readoff.engine.parameters import (
    EMBEDDING,
    HEAD,
    Shape,
    normalise,
    parameter_shapes,
    spell_like,
)

CONFIG = "adapter_config.json"
WEIGHTS = "adapter_model.safetensors"
RECORD = "training.json"
"""What `readoff train` leaves beside an adapter."""

_PREFIX = "base_model.model."
_MATRICES = {
    ".lora_A.weight": "A",
    ".lora_B.weight": "B",
    ".lora_embedding_A": "embedding_A",
    ".lora_embedding_B": "embedding_B",
}
_REPLACED_BASE = ".base_layer.weight"


def read_adapter_config(folder: Path) -> LoraConfig:
    """Parse the adapter_config.json of an adapter folder. Raises AdapterError."""
    path = folder / CONFIG
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise AdapterError(f"{path} is missing; {folder} isn't an adapter folder.") from None
    except (OSError, ValueError, RecursionError) as error:
        raise AdapterError(f"{path} can't be read as JSON ({error}).") from None
    if not isinstance(values, dict):
        raise AdapterError(f"{path} holds {type(values).__name__}, not a JSON object.")
    return LoraConfig.from_dict(values, path)


class _Delta:
    """The change of one matrix: `scale * left @ right`, with left [out, r] and right [r, in]."""

    def __init__(self, left: torch.Tensor, right: torch.Tensor, scale: float) -> None:
        self.left, self.right, self.scale = left, right, scale
        self._first, self._product = 0, right[:0]  # the rows of the product at hand

    def rows(self, start: int, stop: int) -> torch.Tensor:
        """The change of rows [start, stop), fp32; whoever reads on finds the product at hand.

        One product serves many small reads: a product of a few rows costs more to start (and, on
        a busy machine, to join its threads) than to compute. It is dropped at the last row.
        """
        if not self._first <= start < stop <= self._first + self._product.shape[0]:
            end = max(stop, start + LARGE_BLOCK // self.right.shape[1])
            self._first, self._product = start, self.right[:0]  # make room first
            self._product = self.left[start:end] @ self.right
        rows = self._product[start - self._first : stop - self._first] * self.scale
        if stop == self.left.shape[0]:
            self._first, self._product = 0, self.right[:0]
        return rows


class AdaptedCheckpoint(Checkpoint):
    """`base` with the PEFT adapter in `adapter_folder` merged in.

    Opening it checks the adapter completely against the base: every tensor must belong to a module
    that the adapter's config names, every named module must have its tensors, shapes and ranks
    must fit, and all values must be finite. Raises AdapterError.
    """

    def __init__(self, base: Checkpoint, adapter_folder: Path) -> None:
        self.base, self.folder = base, adapter_folder
        self.adapter = read_adapter_config(adapter_folder)
        self._deltas: dict[str, _Delta] = {}
        self._own: dict[str, Any] = {}  # trained in full: tensors of the result, by name
        self._base_own: dict[str, Any] = {}  # stored with the adapter in place of the base's
        self._adapter_digest: str | None = None
        self._read()
        self.config = base.config
        if base.config.tie_word_embeddings and {EMBEDDING, HEAD} & (
            self._deltas.keys() | self._own.keys()
        ):
            self.config = replace(base.config, tie_word_embeddings=False)

    def read_rows(self, name: str, start: int, stop: int) -> torch.Tensor:
        if name in self._own:
            rows: torch.Tensor = self._own[name][start:stop]
            return rows
        rows = self._base_rows(name, start, stop)
        delta = self._deltas.get(name)
        return rows if delta is None else delta.rows(start, stop).add_(rows)

    def _base_rows(self, name: str, start: int, stop: int) -> torch.Tensor:
        names = [name]
        if name in (EMBEDDING, HEAD) and self.base.config.tie_word_embeddings:
            names += [EMBEDDING, HEAD]  # one matrix under two names
        for candidate in names:
            if candidate in self._base_own:
                rows: torch.Tensor = self._base_own[candidate][start:stop]
                return rows
        if name == HEAD and self.base.config.tie_word_embeddings:
            name = EMBEDDING
        return self.base.read_rows(name, start, stop)

    def digest(self) -> str:
        text = f"{self.base.digest()} + {self._own_digest()}"
        return hashlib.sha256(text.encode()).hexdigest()

    def weights_digest(self) -> str:
        return self.base.weights_digest()

    def adapter_digest(self) -> str:
        """sha256 of the adapter's config and weights, after those of the adapters below it."""
        below = self.base.adapter_digest()
        if below is None:
            return self._own_digest()
        return hashlib.sha256(f"{below} + {self._own_digest()}".encode()).hexdigest()

    def _own_digest(self) -> str:
        if self._adapter_digest is None:
            self._adapter_digest = digest_files([self.folder / CONFIG, self.folder / WEIGHTS])
        return self._adapter_digest

    @property
    def folders(self) -> tuple[Path, ...]:
        return (self.folder, *self.base.folders)

    @property
    def adapter_folders(self) -> tuple[Path, ...]:
        return (self.folder, *self.base.adapter_folders)

    @property
    def tokenizer_files(self) -> Path:
        """The adapter's folder if it has the tokenizer it was trained with, else the base's."""
        if all(
            (self.folder / name).exists() for name in ("tokenizer.json", "tokenizer_config.json")
        ):
            return self.folder
        return self.base.tokenizer_files

    def _error(self, message: str) -> AdapterError:
        trained_on = f" It was trained on {self.adapter.base!r}." if self.adapter.base else ""
        return AdapterError(
            f"{self.folder / WEIGHTS}: {message}.{trained_on} Check that the adapter belongs to "
            "this base model."
        )

    def _read(self) -> None:
        shapes = parameter_shapes(self.base.config)
        shapes[HEAD] = shapes[EMBEDDING]  # a module of its own to an adapter, tied or not
        modules = {
            name.removesuffix(".weight")
            for name, shape in shapes.items()
            if len(shape) == 2 and name.endswith(".weight")
        }
        matrices: dict[str, dict[str, torch.Tensor]] = {}
        paths: dict[str, str] = {}  # normalised module name to its path in the adapter's file
        for path, suffix, view in self._tensors():
            module = normalise(path)
            if module is None:
                continue  # of a vision tower or a part that isn't loaded
            if suffix in _MATRICES:
                if module not in modules or not self._is_expected(path):
                    raise self._error(f"{path}{suffix} matches no module of target_modules")
                matrices.setdefault(module, {})[_MATRICES[suffix]] = view[:].float()
                paths[module] = path
            else:
                self._take_full(path, suffix, view, shapes)
        for module, pair in matrices.items():
            self._deltas[f"{module}.weight"] = self._delta(
                paths[module], pair, shapes[f"{module}.weight"]
            )
        if not self._deltas and not self._own:
            raise self._error("it holds no tensor of this model")
        self._check_complete(modules, paths)

    def _tensors(self) -> Iterator[tuple[str, str, Any]]:
        """(module path, suffix, sliceable view) of every stored tensor."""
        file = self.folder / WEIGHTS
        if not file.exists():
            pickled = (self.folder / "adapter_model.bin").exists()
            hint = " adapter_model.bin is a pickle; save it as safetensors." if pickled else ""
            raise AdapterError(f"{file} is missing.{hint}")
        try:
            stored: Any = safe_open(file, framework="pt")
        except (SafetensorError, OSError) as error:
            raise AdapterError(f"{file} can't be read ({error}); download it again.") from None
        for key in stored.keys():  # noqa: SIM118 (not a mapping)
            view = stored.get_slice(key)
            if view.get_dtype() not in ("F64", "F32", "F16", "BF16"):
                raise self._error(f"{key} has dtype {view.get_dtype()}, not a floating-point one")
            name = key.removeprefix(_PREFIX)
            suffixes = (*_MATRICES, _REPLACED_BASE, ".weight", ".bias")
            suffix = next((end for end in suffixes if name.endswith(end)), "")
            yield name.removesuffix(suffix), suffix, view

    def _take_full(self, path: str, suffix: str, view: Any, shapes: dict[str, Shape]) -> None:
        """A tensor that replaces one of the base: a module to save, or a stored embedding."""
        plain = ".weight" if suffix == _REPLACED_BASE else suffix
        name = f"{normalise(path)}{plain}"
        saved = self.adapter.saves(path) and suffix != _REPLACED_BASE
        if name not in shapes or not (saved or name in (EMBEDDING, HEAD)):
            raise self._error(f"{path}{suffix} matches no module of the base or of modules_to_save")
        found = tuple(view.get_shape())
        if found != shapes[name]:
            raise self._error(
                f"{path}{suffix} has shape {list(found)}, the base {list(shapes[name])}"
            )
        for start, stop in row_blocks(found):
            self._check_finite(view[start:stop], f"{path}{suffix}")
        (self._own if saved else self._base_own)[name] = view

    def _delta(self, path: str, pair: dict[str, torch.Tensor], shape: Shape) -> _Delta:
        lookup = path.endswith("embed_tokens")
        names = ("embedding_A", "embedding_B") if lookup else ("A", "B")
        if set(pair) != set(names):
            raise self._error(f"{path} needs a lora_A and a lora_B of one kind, has {sorted(pair)}")
        a, b = pair[names[0]], pair[names[1]]
        rank = self.adapter.rank_of(path)
        outer, inner = reversed(shape) if lookup else shape
        if tuple(a.shape) != (rank, inner) or tuple(b.shape) != (outer, rank):
            raise self._error(
                f"{path} has A {list(a.shape)} and B {list(b.shape)}; rank {rank} and this base "
                f"ask for {[rank, inner]} and {[outer, rank]}"
            )
        self._check_finite(a, path)
        self._check_finite(b, path)
        scale = self.adapter.scale_of(path)
        # An embedding is looked up by row: its change is the transpose of B @ A.
        return _Delta(a.T.contiguous(), b.T.contiguous(), scale) if lookup else _Delta(b, a, scale)

    def _check_finite(self, values: torch.Tensor, name: str) -> None:
        # numpy's check: torch splits even this between threads
        if not np.isfinite(values.float().numpy()).all():
            raise self._error(f"{name} holds values that aren't finite numbers")

    def _is_expected(self, path: str) -> bool:
        tied = self.adapter.ensure_weight_tying and path.endswith(("embed_tokens", "lm_head"))
        return tied or self.adapter.targets(path)

    def _check_complete(self, modules: set[str], paths: dict[str, str]) -> None:
        """Every module that the config names must have been stored."""
        example = next((path for path in paths.values() if path != "lm_head"), "")
        for module in sorted(modules - paths.keys()):
            path = spell_like(module, example)
            if self.adapter.targets(path):
                raise self._error(f"target_modules names {path}, but its tensors are missing")
