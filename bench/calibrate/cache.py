"""Logits kept beside the output: computed once for a model, a card's template and a data file."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from readoff.bench.calibrate.rows import Rows
from readoff.engine.errors import ReadoffError

VERSION = 1
_COLUMNS = ("sizes", "z", "target", "weight", "state")


def cache_path(folder: Path, key: Mapping[str, object]) -> Path:
    """The file for logits of `key`: everything that changes them, as JSON values."""
    text = json.dumps({"version": VERSION, **key}, sort_keys=True)
    return folder / f"logits-{hashlib.sha256(text.encode()).hexdigest()[:16]}.npz"


def save_rows(path: Path, rows: Rows, asked: str = "") -> None:
    """Write in one step, with the digest of what was `asked`. Raises ReadoffError."""
    texts = json.dumps([rows.fields, rows.types, rows.options, asked])
    draft = ""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, draft = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        with os.fdopen(handle, "wb") as out:
            columns = {name: getattr(rows, name) for name in _COLUMNS}
            np.savez_compressed(out, texts=np.array(texts), **columns)
        os.replace(draft, path)
    except OSError as error:
        raise ReadoffError(
            f"{path} can't be written ({error.strerror or error}). "
            "Free some space there, or name another folder with --out."
        ) from error
    finally:
        if draft:
            Path(draft).unlink(missing_ok=True)


def load_rows(path: Path, asked: str = "") -> Rows | None:
    """What `save_rows` wrote; None where there is no such file, it is damaged in any way, or other
    things were `asked`."""
    try:
        with path.open("rb") as raw, np.load(raw, allow_pickle=False) as file:
            fields, types, options, *of = json.loads(str(file["texts"]))
            columns = {name: file[name] for name in _COLUMNS}
        if "".join(of) != asked:
            return None
        return Rows(
            fields=tuple(fields),
            types=tuple(types),
            options=tuple(map(tuple, options)),
            **columns,
        )
    except Exception:  # zip, deflate, npy and JSON fail in a dozen ways; the model can be asked
        return None
