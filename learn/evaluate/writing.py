"""The folder of an evaluation: evaluation.json, evaluation.md and the pictures."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from readoff.bench.report.result import write_text
from readoff.engine.errors import ReadoffError
from readoff.learn.evaluate.errors import EvaluationError
from readoff.learn.evaluate.report import report

RESULT, REPORT = "evaluation.json", "evaluation.md"


def check_folder(folder: Path) -> None:
    """Make `folder` and write to it, so that no model is asked for one that takes no files.

    Raises EvaluationError.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as probe:
            probe.write(b"0")
    except OSError as error:
        raise _unwritable(folder, error) from error


def write_all(folder: Path, document: Mapping[str, Any]) -> list[Path]:
    """Write everything, each file in one step. Raises ReadoffError.

    Without matplotlib there are no pictures, and the report names none.
    """
    path = folder / RESULT
    write_text(path, json.dumps(document, indent=1, allow_nan=False) + "\n")
    paths = [path]
    shown = []
    for name, alt, png in _pictures(document):
        _write_bytes(folder / name, png)
        paths.append(folder / name)
        shown.append((name, alt))
    write_text(folder / REPORT, report(document, shown))
    return [*paths, folder / REPORT]


def _pictures(document: Mapping[str, Any]) -> list[tuple[str, str, bytes]]:
    try:
        from readoff.learn.evaluate.pictures import pictures
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "matplotlib":
            raise
        return []
    return [(one.name, one.alt, one.png) for one in pictures(document)]


def _write_bytes(path: Path, content: bytes) -> None:
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        draft.write_bytes(content)
        os.replace(draft, path)
    except OSError as error:
        raise _unwritable(path, error) from error
    finally:
        draft.unlink(missing_ok=True)


def _unwritable(path: Path, error: OSError) -> ReadoffError:
    return EvaluationError(
        f"{path} can't be written ({error.strerror or error}). Make room or give permission "
        "there, or name another folder with --out."
    )
