"""The dialect of `POST /v1/systemone`: one call a request, whatever the number of questions."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from readoff.bench.records import Ask, Given
from readoff.engine.questions import Choice, Noul, Question, Score

TOLERANCE = 1e-2
"""How far from 1 the probabilities of an answer may sum: servers round what they send."""


def question_json(question: Question) -> dict[str, Any]:
    """A question as the wire contract writes it."""
    made: dict[str, Any] = {"type": question.type}
    if question.instructions is not None:
        made["instructions"] = question.instructions
    if isinstance(question, Choice):
        made["criteria"] = dict(question.criteria)
    elif isinstance(question, Score):
        made["criteria"] = list(question.criteria)
    elif question.criteria is not None:
        made["criteria"] = dict(question.criteria)
    return made


def request_json(ask: Ask, model: str) -> dict[str, Any]:
    """The body that asks all of `ask`'s questions at once."""
    questions = {name: question_json(question) for name, question in ask.questions.items()}
    return {"model": model, "state": ask.state, "questions": questions}


def read(body: Any, questions: Mapping[str, Question]) -> tuple[dict[str, Given], int]:
    """(an answer to each question, input tokens). What can't be right is a failure, by name."""
    answers = body.get("answers") if isinstance(body, Mapping) else None
    given = {}
    for name, question in questions.items():
        answer = answers.get(name) if isinstance(answers, Mapping) else None
        try:
            given[name] = _read(answer, question)
        except (KeyError, TypeError, ValueError) as error:
            given[name] = Given(None, failure=_reason(error))
    usage = body.get("usage") if isinstance(body, Mapping) else None
    tokens = usage.get("input_tokens") if isinstance(usage, Mapping) else None
    return given, tokens if isinstance(tokens, int) else 0


def _reason(error: Exception) -> str:
    return f"no field {error}" if isinstance(error, KeyError) else str(error)


def _read(answer: Any, question: Question) -> Given:
    if not isinstance(answer, Mapping):
        raise ValueError("no answer to the question")
    if answer["type"] != question.type:
        raise ValueError(f"an answer of type {answer['type']!r} to a {question.type}")
    if isinstance(question, Noul):
        true = _probability(answer["noul"])
        return Given("true" if true >= 0.5 else "false", (true, 1.0 - true))
    found = answer["probabilities"]
    if not isinstance(found, Mapping) or set(found) != set(question.options):
        raise ValueError("probabilities of other options than those asked about")
    probabilities = tuple(_probability(found[option]) for option in question.options)
    if abs(sum(probabilities) - 1.0) > TOLERANCE:
        raise ValueError(f"probabilities that sum to {sum(probabilities):.3f}")
    if isinstance(question, Choice):
        chosen = answer["choice"]
        if chosen not in question.options:
            raise ValueError(f"{chosen!r} is no legal choice")
    else:
        chosen = question.options[probabilities.index(max(probabilities))]
    return Given(chosen, probabilities)


def _probability(value: Any) -> float:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not math.isfinite(value) or not 0.0 <= value <= 1.0:
        raise ValueError(f"{value!r} is no probability")
    return float(value)
