"""Routing: BANKING77 (customers), CLINC150 (requests to an assistant), BIG-bench intents."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from pathlib import Path

from readoff.bench.quality import bigbench
from readoff.bench.quality.files import QualityError, locate, read_object, read_text
from readoff.bench.quality.items import Item, named
from readoff.engine.questions import Choice

_OUT_OF_SCOPE = "oos"


def banking77(path: str | Path) -> Iterator[Item]:
    """The test messages with the 77 intents. `path` is the CSV file or its folder."""
    file = locate(path, ("test.csv", "banking77/test.csv"))
    try:
        rows = list(csv.DictReader(io.StringIO(read_text(file), newline="")))
    except csv.Error as error:
        raise QualityError(f"{file} is no CSV file: {error}.") from error
    if not rows or not {"text", "category"} <= rows[0].keys():
        raise QualityError(f'{file} has no columns "text" and "category".')
    for number, row in enumerate(rows, 1):
        if not row["text"] or not row["category"]:
            raise QualityError(f"{file}, row {number}: no text or no category.")
    question = _intent("What does the customer want?", sorted({row["category"] for row in rows}))
    for row in rows:
        yield named(row["text"], "intent", question, row["category"])


def clinc150(path: str | Path) -> Iterator[Item]:
    """The test requests, with those out of scope as an intent of their own."""
    file = locate(path, ("data_full.json", "clinc150/data_full.json"))
    content = read_object(file)
    pairs: list[tuple[str, str]] = []
    for part in ("test", "oos_test"):
        rows = content.get(part)
        if not isinstance(rows, list):
            raise QualityError(f'{file} has no list "{part}".')
        for number, row in enumerate(rows, 1):
            match row:
                case [str(text), str(intent)]:
                    pairs.append((text, intent))
                case _:
                    raise QualityError(f'{file}, "{part}", row {number}: not a text and an intent.')
    intents = sorted({intent for _, intent in pairs} - {_OUT_OF_SCOPE})
    question = _intent("What does the user want?", [*intents, _OUT_OF_SCOPE])
    for text, intent in pairs:
        yield named(text, "intent", question, intent)


def intent_recognition(path: str | Path) -> Iterator[Item]:
    """Utterances with seven intents."""
    for example in bigbench.examples(path, "intent_recognition"):
        question = _intent("What does the user want?", example.options)
        state = example.input.removeprefix("Utterance:").strip()
        yield named(state, "intent", question, example.answer)


def _intent(instructions: str, intents: Sequence[str]) -> Choice:
    names = {name: None if name != _OUT_OF_SCOPE else "None of the others" for name in intents}
    return Choice(instructions=instructions, criteria=names)
