"""Writing a run's files: whole or not at all."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from readoff.learn.errors import TrainingError


def write_bytes(path: Path, content: bytes) -> None:
    """Write `content` beside `path`, then take its place in one step: whoever reads `path` finds
    the old content or the new one, also after a full disk or a power cut.

    Raises TrainingError; the old content is then still there.
    """
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with draft.open("wb") as out:
            out.write(content)
            out.flush()
            os.fsync(out.fileno())
        os.replace(draft, path)
    except OSError as error:
        raise TrainingError(
            f"{path} can't be written: {error.strerror}. What was there before is untouched; make "
            "room or choose another folder, and go on with --resume."
        ) from error
    finally:
        draft.unlink(missing_ok=True)


def write_json(path: Path, document: Mapping[str, Any]) -> None:
    """Write a readable JSON document; never NaN. Raises TrainingError as `write_bytes` does."""
    text = json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False)
    write_bytes(path, f"{text}\n".encode())
