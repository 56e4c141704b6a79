"""Files of labelled data: where they are and what can be wrong with them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path

from readoff.engine.errors import ReadoffError


class QualityError(ReadoffError, ValueError):
    """A file of labelled decisions can't be found, read, understood or written."""


def names_of(paths: Sequence[str | Path]) -> list[str]:
    """What each file is called in results: its stem, and as much of its path as it takes to tell
    it from the others of that stem. Raises QualityError for a file that is named twice."""
    files = [Path(path) for path in paths]
    if twice := {file for file in files if [f.resolve() for f in files].count(file.resolve()) > 1}:
        raise QualityError(f"{min(twice)} is named twice.")
    return [_shortest(file, [other for other in files if other is not file]) for file in files]


def _shortest(file: Path, others: Sequence[Path]) -> str:
    if all(other.stem != file.stem for other in others):
        return file.stem
    parts = file.parts
    for count in range(1, len(parts)):
        if all(other.parts[-count:] != parts[-count:] for other in others):
            return "/".join(parts[-count:])
    return str(file)


def locate(path: str | Path, names: Iterable[str]) -> Path:
    """`path` itself if it is a file, else the first of `names` that lies in it.

    Raises QualityError.
    """
    given = Path(path)
    if given.is_file():
        return given
    wanted = list(names)
    for name in wanted:
        if (given / name).is_file():
            return given / name
    if not given.exists():
        raise QualityError(f"{given} does not exist.")
    raise QualityError(f"{given} has no {' or '.join(wanted)}.")


def read_text(path: Path) -> str:
    """The text of a UTF-8 file. Raises QualityError."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise QualityError(f"{path} is not UTF-8.") from error
    except OSError as error:
        raise QualityError(f"{path} can't be read: {error.strerror}.") from error


def read_object(path: Path) -> dict[str, object]:
    """The JSON object in a file. Raises QualityError."""
    try:
        content = json.loads(read_text(path))
    except json.JSONDecodeError as error:
        raise QualityError(f"{path}: not JSON: {error.msg} at line {error.lineno}.") from error
    except RecursionError:
        raise QualityError(f"{path} is nested too deeply.") from None
    if not isinstance(content, dict):
        raise QualityError(f"{path} must hold a JSON object.")
    return content
