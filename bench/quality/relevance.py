"""Relevance: Cranfield, how useful is an abstract to somebody who asks this?

The file of judgments counts the queries by their position, not by their `.I` numbers, and its
codes run from 1 (a complete answer) to 4 (minimum interest). An abstract without a judgment for
a query counts as of no interest, as the collection's makers meant it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from readoff.bench.quality.files import QualityError, locate, read_text
from readoff.bench.quality.items import Item, named
from readoff.bench.workloads.lexicon import Dice
from readoff.engine.questions import Score

_QUESTION = Score(
    instructions="How useful is the document to somebody who asks this query?",
    criteria=[
        "Of no interest",
        "Of minimum interest",
        "Useful as background or for its methods",
        "Highly relevant",
        "A complete answer",
    ],
)
_RECORD = re.compile(r"^\.I +(\d+)\s*$", re.MULTILINE)
_FIELD = re.compile(r"^\.([A-Z])\s*$", re.MULTILINE)
_UNJUDGED = 2  # abstracts of no interest a query, drawn


def cranfield(path: str | Path) -> Iterator[Item]:
    """Every judgment, and for each query two abstracts that nobody judged useful.

    `path` is the folder with cran.all.1400, cran.qry and cranqrel.
    """
    names = ("cran.all.1400", "cran.qry", "cranqrel")
    files = {name: locate(path, (name, f"cranfield/{name}")) for name in names}
    if len(set(files.values())) < len(files):
        raise QualityError(f"{path} must be the folder of the Cranfield files, not one of them.")
    known = {int(number): fields for number, fields in _records(files["cran.all.1400"])}
    documents = {number: fields for number, fields in known.items() if fields["W"]}
    queries = [fields["W"] for _, fields in _records(files["cran.qry"])]
    judged: dict[int, dict[int, int]] = {}
    for position, document, code in _judgments(files["cranqrel"]):
        if not 1 <= position <= len(queries) or document not in known:
            raise QualityError(f"{files['cranqrel']} names a query or a document that isn't there.")
        if document in documents:  # two abstracts of the collection are empty
            judged.setdefault(position, {})[document] = code
    for position, codes in judged.items():
        others = sorted(documents.keys() - codes.keys())
        drawn = Dice("cranfield", position).sample(others, min(_UNJUDGED, len(others)))
        for document, code in [*codes.items(), *((number, 5) for number in drawn)]:
            state = _state(queries[position - 1], documents[document])
            yield named(state, "usefulness", _QUESTION, str(5 - code))


def _state(query: str, fields: Mapping[str, str]) -> dict[str, object]:
    title, text = fields.get("T", ""), fields["W"]
    if title.endswith("."):  # the text begins with it once more
        text = text.removeprefix(title).strip()
    return {"query": query, "document": {"title": title, "text": text}}


def _records(file: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """Numbers and fields of the records of a file in SMART format, whitespace made single."""
    _, *parts = _RECORD.split(read_text(file))
    if not parts:
        raise QualityError(f'{file} has no record that begins with ".I".')
    for number, body in zip(parts[::2], parts[1::2], strict=True):
        _, *fields = _FIELD.split(body)
        found: dict[str, str] = {}
        for name, text in zip(fields[::2], fields[1::2], strict=True):
            found[name] = f"{found.get(name, '')} {' '.join(text.split())}".strip()
        if "W" not in found:
            raise QualityError(f"{file}: record {number} has no text.")
        yield number, found


def _judgments(file: Path) -> Iterator[tuple[int, int, int]]:
    for number, line in enumerate(read_text(file).splitlines(), 1):
        if line.strip():
            try:
                position, document, code = map(int, line.split())
            except ValueError:
                raise QualityError(f"{file}, line {number}: not three numbers.") from None
            if not 1 <= code <= 4:
                raise QualityError(f"{file}, line {number}: the code {code} is not 1 to 4.")
            yield position, document, code
