"""The labelled decisions of a calibration, and what about them has to be said."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from readoff.bench.quality.jsonl import read_jsonl
from readoff.bench.records import Ask
from readoff.engine.wire import loads


@dataclass(frozen=True)
class Labelled:
    """Decisions of a weight above zero, and remarks on those that were changed or left out."""

    asks: tuple[Ask, ...]
    notes: tuple[str, ...]


def read_labelled(path: Path) -> Labelled:
    """The decisions of a file in the labelled format. Raises QualityError as `read_jsonl` does:
    for labels outside the options, negative weights, weights that are all zero."""
    asks = list(read_jsonl(path))
    notes = []
    kept = tuple(ask for ask in asks if ask.weight > 0.0)
    if len(kept) < len(asks):
        notes.append(f"{len(asks) - len(kept)} decisions have a weight of zero and were left out.")
    odd = _unnormalised(path)
    if odd:
        notes.append(f"{odd} soft labels don't sum to 1; each was divided by its sum.")
    return Labelled(kept, tuple(notes))


def _unnormalised(path: Path) -> int:
    """How many soft labels have another sum than 1. The file was read before, so it is legal."""
    count = 0
    with path.open("rb") as lines:
        for line in lines:
            if not line.strip():
                continue
            content = loads(line.removeprefix(b"\xef\xbb\xbf"))
            answers = content.get("answers") if isinstance(content, Mapping) else None
            for label in answers.values() if isinstance(answers, Mapping) else ():
                if isinstance(label, Mapping):
                    count += abs(math.fsum(label.values()) - 1.0) > 1e-6
    return count
