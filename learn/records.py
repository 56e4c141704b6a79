"""`Records`: the JSON documents that an adapter's card is made from."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from readoff.engine.checkpoint import digest_files
from readoff.engine.lora import CONFIG, WEIGHTS
from readoff.learn.errors import TrainingError

Json = Mapping[str, Any]
_NEEDED = ("losses", "gates", "scopes", "contenders", "files", "temperatures", "notes")


@dataclass(frozen=True)
class Records:
    """What a card is made from. `pictures` are names of files beside it, `notes` is Markdown of
    the author's: what can be said beyond figures, such as why something was lost."""

    name: str
    training: Json
    data: Json
    evaluation: Json
    chain: Json | None = None
    pictures: Sequence[str] = ()
    notes: str = ""
    licence: str = "apache-2.0"


def read_records(
    folder: Path, files: Mapping[str, Path | None], notes: Path | None, licence: str
) -> Records:
    """From the adapter's folder; `files` by record ("training", "data", "evaluation", "chain")
    where one lies elsewhere. Raises TrainingError for what is missing, no JSON, or of another
    adapter. data.json and chain.json may be missing."""
    read: dict[str, Json | None] = {}
    for name in ("training", "data", "evaluation", "chain"):
        path = files.get(name) or folder / f"{name}.json"
        optional = name in ("data", "chain") and files.get(name) is None
        read[name] = None if optional and not path.exists() else _read(path)
    training, data, evaluation = (read[n] or {} for n in ("training", "data", "evaluation"))
    if lacking := [key for key in _NEEDED if key not in evaluation]:
        raise TrainingError(
            f'The evaluation has no "{lacking[0]}". It must be the evaluation.json of '
            "python -m readoff.learn.evaluate."
        )
    _check_same(folder, read)
    return Records(
        name=folder.resolve().name,
        training=training,
        data=data,
        evaluation=evaluation,
        chain=read["chain"],
        pictures=sorted(path.name for path in folder.glob("*.png")),
        notes="" if notes is None else _text(notes),
        licence=licence,
    )


def _check_same(folder: Path, read: Mapping[str, Json | None]) -> None:
    """Raises TrainingError unless every record that names an adapter names the one in `folder`."""
    files = [folder / CONFIG, folder / WEIGHTS]
    if missing := [file.name for file in files if not file.is_file()]:
        raise TrainingError(f"{folder} has no {missing[0]}: it isn't an adapter's folder.")
    own = digest_files(files)
    for name, record in read.items():
        digests = (record or {}).get("digests")
        told = digests.get("adapter") if isinstance(digests, Mapping) else None
        if told != own and (told is not None or (record and name in ("evaluation", "chain"))):
            raise TrainingError(
                f"The record of {name} is of another adapter than the one in {folder}. Make it "
                "again with this one."
            )


def _read(path: Path) -> Json:
    try:
        found = json.loads(_text(path))
    except ValueError as error:
        raise TrainingError(f"{path} is not JSON ({error}).") from error
    if not isinstance(found, dict):
        raise TrainingError(f"{path} must hold a JSON object.")
    return found


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise TrainingError(
            f"{path} can't be read ({error.strerror or error}). A card is made from training.json "
            "and evaluation.json, and from data.json and chain.json where they are."
        ) from error
