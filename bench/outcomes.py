"""Answers beside the truth, as columns: what the metrics are computed from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from readoff.bench.bootstrap import Floats
from readoff.bench.records import Ask, Given, Target, state_numbers

Source: TypeAlias = Literal["readout", "stated", "tokens"]
"""Where a confidence comes from: the label probabilities, the number that the JSON states, or the
probability of the tokens that spell the answer."""

FLOOR = 1e-12
"""The least probability that a logarithm is taken of; `Outcomes.floored` counts where it acts."""


@dataclass(frozen=True)
class Outcomes:
    """One row a question. All columns are [N].

    `confidence` is the probability that the source gives to its own answer, NaN where it gives
    none; `correct` the share of the truth that the answer has, 0 after a failure; `log_loss` and
    `brier` score the whole distribution, NaN without one; `group` numbers the states from 0 (what
    is asked of one state belongs together, be it in several requests of different weights); `soft`
    says whose truth is more than one option.
    """

    confidence: Floats
    correct: Floats
    weight: Floats
    group: NDArray[np.int64]
    answered: NDArray[np.bool_]
    log_loss: Floats
    brier: Floats
    floored: NDArray[np.bool_]
    soft: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.weight)


def outcomes(asks: Sequence[Ask], given: Sequence[Mapping[str, Given]], source: Source) -> Outcomes:
    """The answers to labelled requests, in the order of the requests.

    Questions without a target are left out. A question that has a target and no answer counts as a
    failure. Raises ValueError if nothing is left, if the weights are all zero, or for
    probabilities and confidences that are none.
    """
    if len(asks) != len(given):
        raise ValueError(f"There are {len(asks)} requests and answers to {len(given)}.")
    rows = [
        (*_row(ask, name, answers.get(name), source), _soft(ask.targets[name]), ask.weight, state)
        for ask, answers, state in zip(asks, given, state_numbers(asks), strict=True)
        for name in ask.targets
    ]
    if not rows or not sum(row[-2] for row in rows) > 0.0:
        raise ValueError("There is no labelled question with a weight above zero.")
    columns = zip(*rows, strict=True)
    confidence, correct, answered, log_loss, brier, floored, soft, weight, state = columns
    return Outcomes(
        confidence=np.array(confidence, np.float64),
        correct=np.array(correct, np.float64),
        weight=np.array(weight, np.float64),
        group=np.unique(np.array(state), return_inverse=True)[1].astype(np.int64),
        answered=np.array(answered, np.bool_),
        log_loss=np.array(log_loss, np.float64),
        brier=np.array(brier, np.float64),
        floored=np.array(floored, np.bool_),
        soft=np.array(soft, np.bool_),
    )


def _soft(target: Target) -> bool:
    return any(0.0 < share < 1.0 for share in target.values())


_Row = tuple[float, float, bool, float, float, bool]
_FAILED: _Row = (np.nan, 0.0, False, np.nan, np.nan, False)


def _row(ask: Ask, name: str, given: Given | None, source: Source) -> _Row:
    options, target = ask.questions[name].options, ask.targets[name]
    if given is None or given.value is None:
        return _FAILED
    if given.value not in options:
        raise ValueError(f'The answer {given.value!r} to "{name}" is none of its options.')
    correct = target.get(given.value, 0.0)
    log_loss, brier, floored = np.nan, np.nan, False
    if source == "readout":
        confidence: float | None = None
        if given.probabilities is not None:
            p = _distribution(given.probabilities, len(options), name)
            t = np.array([target.get(option, 0.0) for option in options])
            confidence = float(p[options.index(given.value)])
            log_loss = float(-(t * np.log(np.maximum(p, FLOOR))).sum())
            # The mean over outcomes drawn from t of the squared distance to the outcome.
            brier = float((p * p).sum() - 2.0 * (t * p).sum() + t.sum())
            floored = bool(((p < FLOOR) & (t > 0.0)).any())
    else:
        confidence = given.stated if source == "stated" else given.token_confidence
        if confidence is not None:
            if not 0.0 <= confidence <= 1.0:
                raise ValueError(f'The confidence {confidence} in "{name}" is not within 0 to 1.')
            met = (confidence < FLOOR, correct > 0.0), (1.0 - confidence < FLOOR, correct < 1.0)
            floored = any(all(pair) for pair in met)
    sure = np.nan if confidence is None else confidence
    return sure, correct, True, log_loss, brier, floored


def _distribution(probabilities: Sequence[float], count: int, name: str) -> Floats:
    p = np.array(probabilities, np.float64)
    if p.shape != (count,) or not (p >= 0.0).all() or not abs(p.sum() - 1.0) <= 1e-3:
        raise ValueError(f'The probabilities of "{name}" are no distribution over its options.')
    found: Floats = p / p.sum()
    return found
