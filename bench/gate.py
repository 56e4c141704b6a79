"""The gate between neighbouring rungs: no speed is told of a rung that answers something else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from readoff.bench.records import Ask, Gate, Run
from readoff.bench.rungs.strong_json import Transcript
from readoff.engine.errors import ReadoffError

Answers = Sequence[Run]
"""One run a request, in the order of the workload."""

Transcripts = Sequence[Mapping[str, Transcript]]


class GateError(ReadoffError):
    """A rung's answers differ from those of the rung below by more than rounding can explain."""

    def __init__(self, rung: str, gate: Gate) -> None:
        super().__init__(
            f"Red gate: rung {rung} doesn't answer as {gate.against} does ({gate.note}). "
            "No speed is reported."
        )
        self.rung, self.gate = rung, gate


@dataclass(frozen=True)
class Bounds:
    """How far neighbours may be apart in p.

    `ours`: two rungs of ours. `transformers`: one of them is not ours. `distance` is what they are
    made from: the largest difference of p between the dtype and fp32, measured in this run over
    `questions` questions (None in fp32).
    """

    ours: float
    transformers: float
    distance: float | None = None
    questions: int = 0


FP32 = Bounds(1e-5, 1e-5 + 1e-4)
"""In fp32: 1e-5, and 1e-4 more for another implementation's order of summation."""

FACTOR = 1.5


def measured(distance: float, questions: int) -> Bounds:
    """Bounds from the distance of a narrow dtype from fp32.

    Two ways to the same number are each about that far from the truth. Between rungs of ours,
    which share most of their roundings, 1.5 times the distance is allowed. transformers shares
    none with us: there it is 1.5 times for ours and once for its own.
    """
    distance = max(distance, FP32.ours)
    return Bounds(FACTOR * distance, (FACTOR + 1.0) * distance, distance, questions)


def compare(asks: Sequence[Ask], below: str, lower: Answers, upper: Answers, bound: float) -> Gate:
    """Compare the readouts of two rungs. A near tie may flip: within the bound it can't be told."""
    same, total, largest = 0, 0, 0.0
    worst = ""
    ok = True
    for number, (ask, low, high) in enumerate(zip(asks, lower, upper, strict=True)):
        for name, question in ask.questions.items():
            a, b = low.given.get(name), high.given.get(name)
            p = None if a is None else a.probabilities
            q = None if b is None else b.probabilities
            where = f"request {number}, question {name!r}"
            total += 1
            if a is None or b is None or p is None or q is None or len(p) != len(q):
                return Gate(below, same / total, None, bound, False, f"{where}: no probabilities")
            same += a.value == b.value
            difference = float(np.abs(np.subtract(p, q)).max())  # NaN wherever one is
            likely = question.options[max(range(len(q)), key=q.__getitem__)]
            if b.value != likely:
                ok, worst = False, f"{where}: {b.value!r} is chosen where {likely!r} is likeliest"
            if not difference <= bound:
                ok = False
            if not difference <= largest:
                largest = difference
                if not difference <= bound:
                    worst = f"{where}: {a.value!r} became {b.value!r}" * (a.value != b.value)
                    worst = worst or f"{where}: the probabilities moved"
                    worst += f", Δp {difference:.2g} over the bound {bound:.2g}"
    return Gate(below, same / max(1, total), largest, bound, ok, worst)


def compare_tokens(below: str, lower: Transcripts, upper: Transcripts, bound: float) -> Gate:
    """Two generators must write the same tokens. Where the first difference is a near tie, its two
    best tokens no further apart in p than two roundings, what follows can't be compared."""
    same, total = 0, 0
    note = ""
    ok = True
    for number, (low, high) in enumerate(zip(lower, upper, strict=True)):
        for name, a in low.items():
            b = high.get(name, Transcript((), ()))
            total += 1
            if a.tokens == b.tokens:
                same += 1
                continue
            at = next(
                (n for n, (x, y) in enumerate(zip(a.tokens, b.tokens, strict=False)) if x != y),
                min(len(a.tokens), len(b.tokens)),
            )
            gaps = [*a.gaps[at : at + 1], *b.gaps[at : at + 1]]
            if len(gaps) < 2 or max(gaps) > 2 * bound:
                ok = False
                note = f"request {number}, question {name!r}: token {at} differs"
            elif ok:
                note = f"request {number}, question {name!r}: a near tie at token {at}"
    return Gate(below, same / max(1, total), None, None, ok, note)


def agreement(asks: Sequence[Ask], below: str, lower: Answers, upper: Answers) -> Gate:
    """How often a JSON rung chooses what the readout does: told, never judged."""
    pairs = [
        (low.given[name].value, high.given[name].value)
        for ask, low, high in zip(asks, lower, upper, strict=True)
        for name in ask.questions
    ]
    share = sum(a == b for a, b in pairs) / max(1, len(pairs))
    return Gate(below, share, None, None, True, "told, not judged")
