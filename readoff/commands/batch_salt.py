"""`salt`: whatever else than a request decides its answer, as far as it can be told cheaply.

A model is told apart by names, sizes and times of its files, not by their content, so that a
resumed run starts at once; by no path, so that a folder that was moved goes on. A pack is told
apart by its record, which holds the digest of each file.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

from readoff.adapters import DEMO as DEMO_ADAPTER
from readoff.commands.download import DEMO_NAMES
from readoff.commands.errors import BatchError
from readoff.engine.card import CARD_FILE
from readoff.export.pack import PACK_FILE

_BESIDE = (CARD_FILE, "calibration.json", "label_space.json")
_ADAPTER, _WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
_SUFFIXES = frozenset({".json", ".safetensors", ".gguf", ".jinja", ".onnx", ".data"})
"""Of the files that models are made of. The batch's own files may lie in the same folder."""
_MAX_DEPTH = 8  # of adapters whose base is an adapter again


def salt(model: str, adapter: str | None, card: Path | None, **options: object) -> str:
    """Text that differs where answers may.

    Raises BatchError for a card that can't be read.
    """
    told = {
        "model": facts(model),
        "adapter": adapter and facts(adapter),
        "card": card and _sum(card),
    }
    return json.dumps({**told, **options}, sort_keys=True, default=str)


def facts(name: str, depth: int = 0) -> object:
    """What tells a model or adapter apart: for a name that isn't local, the name."""
    path = Path(os.path.abspath(os.path.expanduser(name)))
    try:
        if os.path.isfile(path / PACK_FILE):
            return [path.name, _digest(path / PACK_FILE)]
        if name in DEMO_NAMES:
            return [name, _brought()] if name == DEMO_NAMES[0] else name
        if os.path.isfile(path):
            beside = [path.parent / file for file in _BESIDE]
            return [path.name, [_file(f) for f in (path, *beside) if f.is_file()]]
        if os.path.isdir(path):
            files = sorted(f for f in path.iterdir() if f.suffix in _SUFFIXES and f.is_file())
            return [path.name, [_file(file) for file in files], _base(path, depth)]
    except OSError:
        return name  # loading it says what is the matter
    return name


def _brought() -> list[str]:
    """The digests of what decides the answers of the adapter that comes with readoff: a new
    installation of the same has other times."""
    return [_digest(DEMO_ADAPTER / file) for file in (_WEIGHTS, CARD_FILE)]


def _base(folder: Path, depth: int) -> object:
    """The facts of an adapter's base, which is all that the answers hang on beside it."""
    try:
        base = json.loads((folder / _ADAPTER).read_bytes()).get("base_model_name_or_path")
    except (OSError, ValueError, AttributeError, RecursionError):
        return None
    if not isinstance(base, str) or depth >= _MAX_DEPTH:
        return None
    beside = folder / os.path.expanduser(base)
    return facts(str(beside) if os.path.exists(beside) else base, depth + 1)


def _file(path: Path) -> tuple[str, int, int]:
    found = path.stat()
    return path.name, found.st_size, found.st_mtime_ns


def _sum(card: Path) -> str:
    file = card / CARD_FILE if card.is_dir() else card
    try:
        return _digest(file)
    except OSError as error:
        raise BatchError(f"The card {file} can't be read: {error.strerror}.") from error


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
