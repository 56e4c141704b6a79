"""Messages with an intent, and the sources that they come from."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from readoff.learn.data.errors import DataError

Split: TypeAlias = Literal["train", "valid", "test"]
SPLITS: tuple[Split, ...] = ("train", "valid", "test")
OUT_OF_SCOPE = "oos"
"""The intent of messages that fit no other."""

_WORD = re.compile(r"\w+")


@dataclass(frozen=True)
class Message:
    """A message and the id of its intent, as people labelled it."""

    text: str
    intent: str

    @property
    def key(self) -> str:
        """The message with case, punctuation and spaces evened out: equal keys, equal states."""
        return normalised(self.text)


@dataclass(frozen=True)
class Source:
    """One public data set: its messages by split, and the licence under which it was published."""

    name: str
    licence: str
    splits: Mapping[Split, Sequence[Message]]
    digest: str

    def with_splits(self, splits: Mapping[Split, Sequence[Message]]) -> Source:
        """The same source with other messages in its splits.

        Raises DataError for a split that has none left.
        """
        for split, messages in splits.items():
            if not any(message.intent != OUT_OF_SCOPE for message in messages):
                raise DataError(f"{self.name} has no messages left to {_USES[split]}.")
        return replace(self, splits=splits)


_USES: Mapping[Split, str] = {
    "train": "train on",
    "valid": "validate with",
    "test": "test with",
}


def normalised(text: str) -> str:
    """Lower-case words with single blanks between them; everything else is dropped."""
    return " ".join(_WORD.findall(text.lower()))
