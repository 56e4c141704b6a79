"""Labelled statements to measure with. The data stays outside the project."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

REVIEWS = (
    "The parcel came a day early and everything works. Thank you!",
    "Third time I have to write. The lamp is broken again and nobody calls back.",
    "It does what it says. The manual could be better.",
    "I am cancelling my subscription.",
    "Good value, although the colour is not quite the one in the picture.",
    "After the update the app no longer opens, and your support has ignored me for a week.",
)


@dataclass(frozen=True)
class Item:
    """A fact, a yes/no question about it, and whether the answer is yes."""

    fact: str
    question: str
    entailed: bool


def data_folder() -> Path:
    """`READOFF_DATA`, else the folder shared/data beside the repository."""
    return Path(os.environ.get("READOFF_DATA") or ROOT.parent / "shared" / "data")


def load() -> list[Item]:
    """BIG-bench's entailed polarity; the test that asks is skipped where the data isn't there."""
    path = data_folder() / "bigbench" / "entailed_polarity.json"
    if not path.is_file():
        pytest.skip(f"NOT MEASURED ON REAL DATA: set READOFF_DATA, there is no {path.name} here")
    items = []
    for example in json.loads(path.read_text(encoding="utf-8"))["examples"]:
        fact, question = example["input"].removeprefix("Fact: ").split(" Q: ")
        items.append(Item(fact, question, example["target_scores"]["yes"] > 0.5))
    return items
