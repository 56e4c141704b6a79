"""What travels between workloads, rungs, gates and reports: plain frozen records."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from readoff.engine.questions import Question
from readoff.engine.text import Text, render_text

Language: TypeAlias = Literal["en", "zh"]
Target: TypeAlias = Mapping[str, float]
"""A label's weight by option (`question.options`); sums to 1."""


@dataclass(frozen=True)
class Ask:
    """One request: a state and its questions. `targets` and `weight` where the answer is known."""

    state: Text
    questions: Mapping[str, Question]
    targets: Mapping[str, Target] = field(default_factory=dict)
    weight: float = 1.0


def state_key(state: Text) -> str:
    """What two states share exactly if the model reads the same."""
    return json.dumps([isinstance(state, str), render_text(state)])


def state_numbers(asks: Sequence[Ask]) -> Sequence[int]:
    """The number of each ask's state, from 0, in the order of their first."""
    numbers: dict[str, int] = {}
    return [numbers.setdefault(state_key(ask.state), len(numbers)) for ask in asks]


@dataclass(frozen=True)
class Workload:
    """Requests of one shape. `axes` are the numbers that pictures are drawn over, for example
    {"state_tokens": 400, "questions": 8, "question_tokens": 40, "documents": 20}."""

    name: str
    kind: Literal["paper", "many", "search", "quality"]
    language: Language
    asks: Sequence[Ask]
    axes: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Given:
    """A rung's answer to one question.

    `probabilities` follow `question.options`; None for rungs that write JSON. `value` is the
    option chosen, None after a failure, which `failure` names. `stated` is the confidence that the
    JSON states, `token_confidence` the probability of the tokens that spell the answer.
    """

    value: str | None
    probabilities: tuple[float, ...] | None = None
    stated: float | None = None
    token_confidence: float | None = None
    failure: str | None = None


@dataclass(frozen=True)
class Run:
    """One request answered once by one rung."""

    given: Mapping[str, Given]
    seconds: float
    tokens_computed: int
    tokens_generated: int


@dataclass(frozen=True)
class Gate:
    """A comparison with the rung below: `agreement` of the chosen options (share), the largest
    difference of probabilities, the bounds, and whether both hold. None where there is nothing to
    compare (the lowest rung, JSON)."""

    against: str
    agreement: float
    max_dp: float | None
    bound: float | None
    ok: bool
    note: str = ""


@dataclass(frozen=True)
class Speedup:
    """A ratio of medians over paired repeats with a bootstrap interval (95 %)."""

    ratio: float
    low: float
    high: float


@dataclass(frozen=True)
class RungReport:
    """One rung on one workload. Seconds are of whole requests."""

    name: str
    workload: str
    seconds: Sequence[float]
    decisions: int
    tokens_computed: int
    tokens_generated: int
    failures: int
    gate: Gate | None
    speedups: Mapping[str, Speedup] = field(default_factory=dict)
    bytes_moved: float | None = None
    flops: float | None = None
    peak_bytes: int | None = None
