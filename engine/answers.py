"""Answers, and the decision that holds one for each question."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal, TypeAlias

from readoff.engine.calibration import choice_confidence, score_confidence
from readoff.engine.errors import NumericsError
from readoff.engine.questions import Choice, Question, Score
from readoff.engine.text import render_text

_SUM_TOLERANCE = 1e-3  # what half-precision kernels may lose over 255 options


@dataclass(frozen=True)
class ChoiceAnswer:
    """`choice` is the most probable option; `confidence` is 0 when all are equally probable.

    `probabilities` and the raw `logits` are keyed by option name. `legal_mass`, if it was asked
    for, is the probability that the full vocabulary gives to the legal labels.
    """

    choice: str
    probabilities: Mapping[str, float]
    confidence: float
    logits: Mapping[str, float]
    legal_mass: float | None = None
    type: ClassVar[Literal["choice"]] = "choice"


@dataclass(frozen=True)
class ScoreAnswer:
    """`score` is the mean level under `probabilities`; `legend` says what each level means."""

    score: float
    probabilities: Mapping[str, float]
    legend: Mapping[str, str]
    confidence: float
    logits: Mapping[str, float]
    legal_mass: float | None = None
    type: ClassVar[Literal["score"]] = "score"


@dataclass(frozen=True)
class NoulAnswer:
    """`noul` is the probability of "true"; the logits are keyed "true" and "false"."""

    noul: float
    logits: Mapping[str, float]
    legal_mass: float | None = None
    type: ClassVar[Literal["noul"]] = "noul"


Answer: TypeAlias = ChoiceAnswer | ScoreAnswer | NoulAnswer


@dataclass(frozen=True)
class Usage:
    """Tokens of one request: `input_tokens` counts every distinct piece of the prompt once."""

    input_tokens: int
    computed_tokens: int
    cached_tokens: int


@dataclass(frozen=True)
class Verdict:
    """What the gate made of an answer.

    `accept`: whether the model's own answer passed. `given_by`: who gave the answer that is
    returned. `failure`: why an escalation that was tried gave none; the model's answer is then
    returned, and `accept` stays False.
    """

    accept: bool
    given_by: Literal["model", "escalation"] = "model"
    failure: str | None = None


@dataclass(frozen=True, eq=False)
class Decision(Mapping[str, Answer]):
    """The answers of one request by question id, in the order the questions were asked.

    `verdicts` has one for each answer where a gate was applied, and none where there was no gate.
    """

    answers: Mapping[str, Answer]
    usage: Usage
    latency_ms: float
    model: str
    verdicts: Mapping[str, Verdict] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Answer:
        return self.answers[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.answers)

    def __len__(self) -> int:
        return len(self.answers)


def build_answer(
    question: Question,
    logits: Sequence[float],
    probabilities: Sequence[float],
    legal_mass: float | None = None,
) -> Answer:
    """The answer to `question` from its readout.

    `logits` (raw) and `probabilities` (calibrated) hold one number an option, in the order of
    `question.options`. Choice, score and confidence are computed from exactly the probabilities
    that are returned. Raises NumericsError unless these are a finite probability distribution.
    """
    options = question.options
    z = [float(value) for value in logits]
    p = [float(value) for value in probabilities]
    _check(len(options), z, p, legal_mass)
    by_logit = dict(zip(options, z, strict=True))
    if isinstance(question, Choice):
        best = max(range(len(p)), key=p.__getitem__)
        return ChoiceAnswer(
            choice=options[best],
            probabilities=dict(zip(options, p, strict=True)),
            confidence=choice_confidence(p),
            logits=by_logit,
            legal_mass=legal_mass,
        )
    if isinstance(question, Score):
        return ScoreAnswer(
            score=sum(level * value for level, value in enumerate(p)),
            probabilities=dict(zip(options, p, strict=True)),
            legend={o: render_text(t) for o, t in zip(options, question.criteria, strict=True)},
            confidence=score_confidence(p),
            logits=by_logit,
            legal_mass=legal_mass,
        )
    return NoulAnswer(noul=p[0], logits=by_logit, legal_mass=legal_mass)


def stated_answer(question: Question, option: str) -> Answer:
    """An answer by someone who names an option and no probabilities: all of it is on that option.

    There are no logits. Raises NumericsError if `option` is none of the question's.
    """
    options = question.options
    if option not in options:
        raise NumericsError(f"{option!r} is none of the options.")
    p = {name: float(name == option) for name in options}
    if isinstance(question, Choice):
        return ChoiceAnswer(option, p, choice_confidence(list(p.values())), {})
    if isinstance(question, Score):
        legend = {o: render_text(t) for o, t in zip(options, question.criteria, strict=True)}
        level = float(options.index(option))
        return ScoreAnswer(level, p, legend, score_confidence(list(p.values())), {})
    return NoulAnswer(p["true"], {})


def _check(n: int, logits: list[float], p: list[float], legal_mass: float | None) -> None:
    if len(logits) != n or len(p) != n:
        raise NumericsError(f"{n} options, but {len(logits)} logits and {len(p)} probabilities.")
    if not all(map(math.isfinite, logits)):
        raise NumericsError("The model produced logits that aren't finite numbers.")
    if not all(0.0 <= value <= 1.0 for value in p) or abs(math.fsum(p) - 1.0) > _SUM_TOLERANCE:
        raise NumericsError("The probabilities are not a distribution over the options.")
    if legal_mass is not None and not math.isfinite(legal_mass):
        raise NumericsError("The legal mass is not a finite number.")
