"""BANKING77: what customers write to a bank, 77 intents.

Casanueva et al., "Efficient Intent Detection with Dual Sentence Encoders", 2020; CC BY 4.0.
"""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

from readoff.bench.quality import routing
from readoff.bench.quality.files import locate
from readoff.bench.workloads.lexicon import Dice
from readoff.learn.data.errors import DataError
from readoff.learn.data.messages import Message, Source

LICENCE = "CC BY 4.0"
_HELD_OUT = 0.1  # of each intent's training messages: the published data has no validation split


def banking77(folder: Path) -> Source:
    """The splits as published, with a tenth of every intent of the training one held out.

    `folder` holds `banking77/train.csv` and `banking77/test.csv`. Raises QualityError, or
    DataError where an intent has fewer than two messages.
    """
    files = {part: locate(folder, (f"banking77/{part}.csv",)) for part in ("train", "test")}
    parts = {part: _read(file) for part, file in files.items()}
    by_intent: dict[str, list[Message]] = {}
    for message in parts["train"]:
        by_intent.setdefault(message.intent, []).append(message)
    train: list[Message] = []
    valid: list[Message] = []
    for intent, messages in by_intent.items():
        if len(messages) < 2:
            raise DataError(f'{files["train"]} has only one message of the intent "{intent}".')
        # Which ones are held out doesn't depend on the seed of a data set: two data sets of
        # different seeds can be compared on the same held-out messages.
        drawn = Dice("banking77", intent).sample(messages, len(messages))
        cut = max(1, round(len(drawn) * _HELD_OUT))
        valid += drawn[:cut]
        train += drawn[cut:]
    digest = sha256(b"".join(sha256(file.read_bytes()).digest() for file in files.values()))
    splits = {"train": train, "valid": valid, "test": parts["test"]}
    return Source("banking77", LICENCE, splits, digest.hexdigest())  # type: ignore[arg-type]


def _read(file: Path) -> list[Message]:
    found = []
    for item in routing.banking77(file):
        assert isinstance(item.ask.state, str)  # the converter's states are plain messages
        (target,) = item.ask.targets.values()
        found.append(Message(" ".join(item.ask.state.split()), next(iter(target))))
    return found
