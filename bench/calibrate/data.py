"""The labelled decisions of a calibration, and what about them has to be said."""

from __future__ import annotations

import hashlib
import io
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from readoff.bench.quality.files import QualityError
from readoff.bench.quality.jsonl import read_lines
from readoff.bench.records import Ask, state_key
from readoff.engine.debias import fingerprint
from readoff.engine.strict_json import loads

FAINTEST = 1e-100
"""The least weight, as a share of the largest: beyond it the arithmetic would lose it."""


@dataclass(frozen=True)
class Labelled:
    """Decisions of a weight above zero, and remarks on those that were changed or left out."""

    asks: tuple[Ask, ...]
    notes: tuple[str, ...]


def read_labelled(path: Path) -> Labelled:
    """The decisions of a file in the labelled format, which is read once: it may be a pipe.

    Raises QualityError as `read_jsonl` does: for labels outside the options, negative weights,
    weights that are all zero; and for weights too far apart.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise QualityError(f"{path} can't be read: {error.strerror}.") from error
    asks = list(read_lines(io.BytesIO(content), str(path)))
    notes = []
    kept = tuple(ask for ask in asks if ask.weight > 0.0)
    if len(kept) < len(asks):
        notes.append(f"{len(asks) - len(kept)} decisions have a weight of zero and were left out.")
    weights = [ask.weight for ask in kept]
    if min(weights) / max(weights) < FAINTEST:
        raise QualityError(
            f"{path}: the weights run from {min(weights):g} to {max(weights):g}, which no fit can "
            "weigh against each other. Give the lightest decisions a weight of 0."
        )
    odd = _unnormalised(io.BytesIO(content))
    if odd:
        notes.append(f"{odd} soft labels don't sum to 1; each was divided by its sum.")
    return Labelled(kept, tuple(notes))


def requests_digest(asks: Sequence[Ask]) -> str:
    """sha256 of what the model is asked: states and questions in their order, not their labels."""
    digest = hashlib.sha256()
    for ask in asks:
        asked = [[name, fingerprint(q)] for name, q in ask.questions.items() if name in ask.targets]
        digest.update(json.dumps([state_key(ask.state), asked]).encode() + b"\n")
    return digest.hexdigest()


def _unnormalised(lines: Iterable[bytes]) -> int:
    """How many soft labels have another sum than 1. The lines were read before, so are legal."""
    count = 0
    for line in lines:
        if not line.strip():
            continue
        content = loads(line.removeprefix(b"\xef\xbb\xbf"))
        answers = content.get("answers") if isinstance(content, Mapping) else None
        for label in answers.values() if isinstance(answers, Mapping) else ():
            if isinstance(label, Mapping):
                largest = max(map(float, label.values()))
                total = math.fsum(value / largest for value in label.values()) * largest
                count += abs(total - 1.0) > 1e-6
    return count
