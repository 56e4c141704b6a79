"""`check`: an exported graph against our own backbone in fp32, on the same tokens.

The backbone runs a layer at a time (`readoff.export.streamed`), so that the model needs no memory
of its own beside the graph's. What it computes as one chain of segments, the graph runs in two: a
state, and from its past the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from readoff.engine.checkpoint import Checkpoint
from readoff.engine.forest import Forest
from readoff.export.errors import ParityError
from readoff.export.graph.options import GraphOptions, Precision
from readoff.export.probes import Probe, Row
from readoff.export.session import GraphSession, LabelRows, padded
from readoff.export.streamed import streamed_readouts

Floats = NDArray[np.float32]
Pair = tuple[Floats, Floats]
"""Logits and probabilities of one row's labels."""
Progress = Callable[[int, int], None]

_TOKENS = 2048
"""A pass of the reference takes no further probe once it has so many."""


@dataclass(frozen=True)
class Bounds:
    """What a graph may differ by: the largest difference of a logit (None: any) and of a
    probability, the mean over rows of each row's largest Δp, and the share of rows whose best label
    must be the same. Mean and share count rows that end like prompts."""

    logit: float | None
    probability: float
    mean: float
    same: float


BOUNDS: dict[Precision, Bounds] = {
    "fp32": Bounds(1e-3, 1e-3, 1e-3, 1.0),
    "fp16": Bounds(None, 0.05, 0.01, 0.9),
    "int8": Bounds(None, 0.25, 0.06, 0.8),
    "int4": Bounds(None, 0.75, 0.25, 0.5),
}
"""fp32 is what is promised. The others find a graph that is wrong, not one that is coarse, for how
much a model bears is its own: they lie well beyond the worst that was seen.

| seen: largest Δp, mean, same answers | three seeded tiny models | demonstration model |
|--------------------------------------|--------------------------|---------------------|
| fp32                                 | 4e-6, 5e-7, 100 %        | 5e-6, 2e-6, 100 %   |
| fp16                                 | 0.005, 0.0015, 100 %     | not measured        |
| int8                                 | 0.20, 0.03, 95 %         | 0.16, 0.023, 100 %  |
| int4                                 | 0.51, 0.11, 90 %         | not measured        |

int4 was seen with 4-bit weights throughout; it is finer now.
"""


@dataclass(frozen=True)
class Answer:
    """One row's logits and probabilities over its labels, by the backbone and by the graph."""

    row: Row
    expected: Pair
    found: Pair

    @property
    def logit(self) -> float:
        """The largest difference of a raw logit."""
        return float(np.abs(self.expected[0] - self.found[0]).max())

    @property
    def probability(self) -> float:
        """The largest difference of a probability."""
        return float(np.abs(self.expected[1] - self.found[1]).max())

    @property
    def same(self) -> bool:
        """Whether both have the same best label, after prior and temperature."""
        return int(self.expected[1].argmax()) == int(self.found[1].argmax())


@dataclass(frozen=True)
class Case:
    """One probe and its answers: a line of the table."""

    probe: Probe
    answers: tuple[Answer, ...]

    def to_json(self, bounds: Bounds) -> dict[str, Any]:
        """The line as JSON values, the same columns for all."""
        return {
            "what": self.probe.what,
            "past": len(self.probe.past),
            "tokens": max(len(row.tokens) for row in self.probe.rows),
            "rows": len(self.answers),
            "max |Δlogit|": max(a.logit for a in self.answers),
            "max |Δp|": max(a.probability for a in self.answers),
            "same answer": f"{sum(a.same for a in self.answers)} of {len(self.answers)}",
            "passed": all(_within(a, bounds) for a in self.answers),
        }


@dataclass(frozen=True)
class Parity:
    """All cases, what they had to keep, and what over all was wrong (empty: passed)."""

    cases: tuple[Case, ...]
    bounds: Bounds

    @property
    def answers(self) -> list[Answer]:
        """Of every row."""
        return [answer for case in self.cases for answer in case.answers]

    @property
    def asked(self) -> list[Answer]:
        """Of the rows that end like prompts."""
        return [answer for case in self.cases if case.probe.asked for answer in case.answers]

    @property
    def logit(self) -> float:
        """The largest difference of a logit, 0 for no case."""
        return max((a.logit for a in self.answers), default=0.0)

    @property
    def probability(self) -> float:
        """The largest difference of a probability."""
        return max((a.probability for a in self.answers), default=0.0)

    @property
    def mean(self) -> float:
        """The mean of Δp over rows that end like prompts."""
        return float(np.mean([a.probability for a in self.asked] or [0.0]))

    @property
    def same(self) -> float:
        """The share of those with the same answer."""
        return float(np.mean([float(a.same) for a in self.asked] or [1.0]))

    def failures(self) -> list[str]:
        """What is beyond its bound, in words."""
        bounds, found = self.bounds, []
        if bounds.logit is not None and not self.logit <= bounds.logit:
            found.append(f"a logit differs by {self.logit:.2g} (at most {bounds.logit:g})")
        if not self.probability <= bounds.probability:
            found.append(
                f"a probability differs by {self.probability:.2g} (at most {bounds.probability:g})"
            )
        if not self.mean <= bounds.mean:
            found.append(f"the mean |Δp| is {self.mean:.2g} (at most {bounds.mean:g})")
        if not self.same >= bounds.same:
            found.append(
                f"{self.same:.0%} of the answers are the same (at least {bounds.same:.0%})"
            )
        if bounds.same == 1.0 and not all(a.same for a in self.answers):
            found.append("a row has another best label")
        return found

    def table(self) -> list[dict[str, Any]]:
        """A line a case, and the last over all."""
        rows = [case.to_json(self.bounds) for case in self.cases]
        if rows:
            same = sum(a.same for a in self.answers)
            total: dict[str, Any] = {
                "what": "all",
                "past": None,
                "tokens": None,
                "rows": len(self.answers),
            }
            total |= {"max |Δlogit|": self.logit, "max |Δp|": self.probability}
            total |= {"same answer": f"{same} of {len(self.answers)}"}
            rows.append(total | {"passed": not self.failures()})
        return rows


def check(
    checkpoint: Checkpoint,
    session: GraphSession,
    probes: Sequence[Probe],
    bounds: Bounds | None = None,
    progress: Progress = lambda done, of: None,
) -> Parity:
    """Run `probes` both ways; without `bounds` those of the graph's precision count.

    `progress(done, of)` counts layers and runs. Nothing is raised for what differs: see
    `Parity.failures` and `require`. Raises NumericsError for logits that aren't finite.
    """
    layers = checkpoint.config.num_layers
    steps = layers + len(probes)
    expected = iter(reference(checkpoint, probes, lambda done, of: progress(done, steps)))
    cases = []
    for number, probe in enumerate(probes, 1):
        answers = map(Answer, probe.rows, expected, run(session, probe))
        cases.append(Case(probe, tuple(answers)))
        progress(layers + number, steps)
    return Parity(tuple(cases), bounds or BOUNDS[session.options.precision])


def reference(
    checkpoint: Checkpoint,
    probes: Sequence[Probe],
    progress: Progress = lambda done, of: None,
) -> list[Pair]:
    """Logits and probabilities of all rows, in order, by our backbone in fp32.

    Rows and pasts that several probes have are computed once.
    """
    forests = [Forest()]
    counts = []
    for probe in probes:
        if forests[-1].tokens > _TOKENS:
            forests.append(Forest())
        for row in probe.rows:
            pieces = [ids for ids in (probe.past, row.tokens) if ids]
            leaf = forests[-1].add(pieces)
            forests[-1].read(leaf, row.labels, row.prior, row.temperature)
            counts.append(len(row.labels))
    batches = [forest.batch() for forest in forests if forest.reads]
    readouts = streamed_readouts(checkpoint, batches, progress)
    logits = torch.cat([readout.logits for readout in readouts]).split(counts)
    shares = torch.cat([readout.probabilities for readout in readouts]).split(counts)
    return [(z.numpy(), p.numpy()) for z, p in zip(logits, shares, strict=True)]


def require(parity: Parity, options: GraphOptions) -> None:
    """Raise ParityError if the check failed, or checked nothing."""
    if not parity.cases:
        raise ParityError(
            "The model's context is too short for any of the probes: the export can't be checked."
        )
    failures = parity.failures()
    if failures:
        worst = max(parity.cases, key=lambda case: max(a.probability for a in case.answers))
        row = worst.to_json(parity.bounds)
        advice = (
            "This is a fault of readoff or of this version of onnxruntime; please report it."
            if options.precision == "fp32"
            else f"This model doesn't bear {options.precision}; choose a wider precision."
        )
        raise ParityError(
            f"The exported graph doesn't decide like the model: {'; '.join(failures)}. Worst on "
            f'"{row["what"]}" with {row["past"]} tokens of past and {row["tokens"]} new ones. '
            f"{advice} Nothing was kept.",
            parity.table(),
        )


def run(session: GraphSession, probe: Probe) -> list[Pair]:
    """Logits and probabilities of a probe's rows by the graph: its past first, then its rows."""
    past = None
    if probe.past:
        first = probe.rows[0]
        outcome = session.run(
            np.array([probe.past], np.int64), [len(probe.past)], labels=_labels([first])
        )
        past = session.continued(session.empty(), 0, outcome, 0, len(probe.past))
    outcome = session.run(
        padded([row.tokens for row in probe.rows], np.int64),
        [len(row.tokens) for row in probe.rows],
        [len(probe.past)],
        past,
        _labels(probe.rows),
    )
    counts = [len(row.labels) for row in probe.rows]
    pairs = zip(outcome.logits, outcome.probabilities, counts, strict=True)
    return [(logits[:n], shares[:n]) for logits, shares, n in pairs]


def _labels(rows: Sequence[Row]) -> LabelRows:
    return LabelRows.of(
        [row.labels for row in rows],
        [row.prior for row in rows],
        [row.temperature for row in rows],
    )


def _within(answer: Answer, bounds: Bounds) -> bool:
    logit = bounds.logit is None or answer.logit <= bounds.logit
    return logit and answer.probability <= bounds.probability and (answer.same or bounds.same < 1.0)
