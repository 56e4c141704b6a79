"""CLINC150: requests to an assistant, 150 intents and requests out of scope.

Larson et al., "An Evaluation Dataset for Intent Classification and Out-of-Scope Prediction", 2019;
CC BY 3.0.
"""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

from readoff.bench.quality.files import locate, read_object
from readoff.learn.data.errors import DataError
from readoff.learn.data.messages import Message, Source, Split

LICENCE = "CC BY 3.0"
_PARTS: tuple[tuple[Split, str], ...] = (("train", "train"), ("valid", "val"), ("test", "test"))


def clinc150(folder: Path) -> Source:
    """The three splits as published, those out of scope included.

    `folder` holds `clinc150/data_full.json`. Raises QualityError, or DataError for rows that
    aren't a text and an intent.
    """
    file = locate(folder, ("clinc150/data_full.json",))
    content = read_object(file)
    splits: dict[Split, list[Message]] = {}
    for split, part in _PARTS:
        splits[split] = []
        for name in (part, f"oos_{part}"):
            rows = content.get(name)
            if not isinstance(rows, list):
                raise DataError(f'{file} has no list "{name}".')
            for number, row in enumerate(rows, 1):
                match row:
                    case [str(text), str(intent)] if text.strip() and intent:
                        splits[split].append(Message(text.strip(), intent))
                    case _:
                        raise DataError(f'{file}, "{name}", row {number}: no text with an intent.')
    return Source("clinc150", LICENCE, splits, sha256(file.read_bytes()).hexdigest())
