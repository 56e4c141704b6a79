"""Rewriting: BIG-bench metaphors, does the second sentence say what the first one means?"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from readoff.bench.quality import bigbench
from readoff.bench.quality.items import Item, named
from readoff.engine.questions import Noul

_QUESTION = Noul(instructions="The paraphrase says what the sentence means.")


def metaphor_boolean(path: str | Path) -> Iterator[Item]:
    """A metaphorical sentence and a paraphrase, right or wrong."""
    for example in bigbench.examples(path, "metaphor_boolean"):
        sentence, paraphrase = example.split("<-->")
        state = {"sentence": sentence, "paraphrase": paraphrase}
        yield named(state, "faithful", _QUESTION, example.answer.lower())
