"""The OpenAI dialect of the wire contract (`POST /v1/decisions`): requests in, answers out.

Questions are a list and may be nameless, a choice's values may be strings or booleans, and answers
come back as a list in the order of the questions.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from readoff.engine.answers import Answer, ChoiceAnswer, Decision, NoulAnswer, ScoreAnswer
from readoff.engine.errors import NumericsError, QuestionError, RequestError
from readoff.engine.questions import MAX_LEVELS, MAX_OPTIONS, Choice, Noul, Question, Score
from readoff.engine.text import Text
from readoff.engine.wire_fields import array_of, object_of, shown, string_of

Loc = tuple[str | int, ...]
Value = str | bool


@dataclass(frozen=True)
class _Asked:
    """A question, the name it was given, and what its options are called in the answer."""

    question: Question
    name: str | None
    values: tuple[Value, ...] = ()
    labels: tuple[str, ...] = ()


@dataclass(frozen=True)
class DecisionRequest:
    """A legal request. `questions` has ids of our own where the request has no name."""

    model: str
    state: Text
    questions: Mapping[str, Question]
    asked: tuple[_Asked, ...]

    def render(self, decision: Decision, model: str) -> dict[str, object]:
        """The response, `model` being the name of the model that answered.

        Raises NumericsError if anything in it isn't a finite number.
        """
        usage = decision.usage
        answers = [
            _answer(asked, decision[name])
            for name, asked in zip(self.questions, self.asked, strict=True)
        ]
        return {
            "model": model,
            "answers": answers,
            "usage": {
                "input_tokens": usage.input_tokens,
                "input_tokens_details": {"cached_tokens": usage.cached_tokens},
                "output_tokens": len(answers),
                "output_tokens_details": {"reasoning_tokens": 0},
                "total_tokens": usage.input_tokens + len(answers),
            },
        }


def parse_request(content: object) -> DecisionRequest:
    """Check the parsed JSON of a request. Unknown fields are ignored.

    Raises RequestError whose `loc` leads to the offending field, for example
    ("body", "questions", 0, "choices").
    """
    fields = object_of(content, "A request", ("body",))
    for name in ("model", "input", "questions"):
        if name not in fields:
            raise RequestError(f'The field "{name}" is required.', ("body", name))
    model = string_of(fields["model"], "The model", ("body", "model"))
    state = _input(fields["input"], ("body", "input"))
    given = array_of(fields["questions"], "The questions", ("body", "questions"))
    if not given:
        raise RequestError("There is no question; ask at least one.", ("body", "questions"))
    asked = [_question(item, ("body", "questions", i)) for i, item in enumerate(given)]
    names: dict[str, int] = {}
    for index, one in enumerate(asked):
        if one.name in names:
            raise RequestError(
                f"Questions {names[one.name]} and {index} are both called {shown(one.name)}.",
                ("body", "questions", index, "name"),
            )
        if one.name is not None:
            names[one.name] = index
    questions: dict[str, Question] = {}
    for index, one in enumerate(asked):
        key = one.name
        while key is None or (one.name is None and (key in names or key in questions)):
            key = f"question {index}" if key is None else f"{key}'"
        questions[key] = one.question
    return DecisionRequest(model, state, questions, tuple(asked))


def _input(value: object, loc: Loc) -> Text:
    """Text as it is; messages as an array, so that a longer conversation begins with a shorter."""
    if isinstance(value, str):
        return string_of(value, "The input", loc, empty=True)
    messages = array_of(value, "The input", loc, "a string or an array of messages")
    if not messages:
        raise RequestError("The input has no message.", loc)
    return [_message(item, (*loc, index)) for index, item in enumerate(messages)]


def _message(item: object, loc: Loc) -> Text:
    message = object_of(item, "A message", loc)
    if message.get("type", "message") != "message":
        raise RequestError(f'A message\'s type is "message", not {shown(message["type"])}.', loc)
    if "content" not in message:
        raise RequestError('A message needs "content".', (*loc, "content"))
    role = string_of(message.get("role", "user"), "The role", (*loc, "role"))
    content = message["content"]
    where = (*loc, "content")
    if isinstance(content, str):
        return {"role": role, "content": string_of(content, "The content", where, empty=True)}
    parts = array_of(content, "The content", where, "a string or an array of parts")
    texts = [_part(part, (*where, index)) for index, part in enumerate(parts)]
    if not texts:
        raise RequestError("The content has no part.", where)
    return {"role": role, "content": texts[0] if len(texts) == 1 else texts}


def _part(item: object, loc: Loc) -> str:
    part = object_of(item, "A part", loc)
    if part.get("type") not in ("input_text", "output_text", "text"):
        raise RequestError(
            f'The model reads text only ("input_text"), not {shown(part.get("type"))}.',
            (*loc, "type"),
        )
    return string_of(part.get("text"), "The text", (*loc, "text"), empty=True)


def _question(item: object, loc: Loc) -> _Asked:
    fields = object_of(item, "A question", loc)
    kind = fields.get("type")
    if kind not in ("predicate", "choice", "score"):
        raise RequestError(
            f'A question\'s type is "predicate", "choice" or "score", not {shown(kind)}.',
            (*loc, "type"),
        )
    name = fields.get("name")
    if name is not None:
        name = string_of(name, "The name", (*loc, "name"))
    if "instructions" not in fields:
        raise RequestError("A question needs instructions.", (*loc, "instructions"))
    text = string_of(fields["instructions"], "The instructions", (*loc, "instructions"), empty=True)
    if kind == "predicate":
        return _Asked(Noul(instructions=text), name)
    part = "choices" if kind == "choice" else "levels"
    if part not in fields:
        raise RequestError(f"A {kind} needs {part}.", (*loc, part))
    given = array_of(fields[part], f"The {part}", (*loc, part))
    most = MAX_OPTIONS if kind == "choice" else MAX_LEVELS
    if not 2 <= len(given) <= most:
        raise RequestError(
            f"A {kind} takes 2 to {most} {part}, and this one has {len(given)}.", (*loc, part)
        )
    try:
        if kind == "choice":
            return _choice(text, name, given, (*loc, part))
        return _score(text, name, given, (*loc, part))
    except QuestionError as error:
        raise RequestError(str(error), (*loc, part)) from error


def _choice(text: str, name: str | None, given: Sequence[object], loc: Loc) -> _Asked:
    values: list[Value] = []
    known: set[Value] = set()
    descriptions: list[str | None] = []
    for index, item in enumerate(given):
        option = object_of(item, "A choice", (*loc, index))
        value = option.get("value")
        if not isinstance(value, bool):
            value = string_of(
                value, "A choice's value", (*loc, index, "value"), "string or boolean"
            )
        if value in known:
            raise RequestError(f"The value {shown(value)} is there twice.", (*loc, index, "value"))
        known.add(value)
        values.append(value)
        descriptions.append(_description(option, (*loc, index)))
    names = _option_names(values)
    return _Asked(
        Choice(instructions=text, criteria=dict(zip(names, descriptions, strict=True))),
        name,
        values=tuple(values),
    )


def _option_names(values: Sequence[Value]) -> list[str]:
    """A name for each value: booleans as in JSON, a string that reads like one of those in quotes,
    as often as it takes to be no other's."""
    booleans = {json.dumps(value) for value in values if isinstance(value, bool)}
    taken = booleans | {value for value in values if isinstance(value, str)}
    names: list[str] = []
    for value in values:
        name = json.dumps(value) if isinstance(value, bool) else value
        if isinstance(value, str) and name in booleans:
            while name in taken:
                name = json.dumps(name, ensure_ascii=False)
        names.append(name)
    return names


def _score(text: str, name: str | None, given: Sequence[object], loc: Loc) -> _Asked:
    labels: list[str] = []
    descriptions: list[str | None] = []
    for index, item in enumerate(given):
        level = object_of(item, "A level", (*loc, index))
        label = string_of(level.get("label"), "A level's label", (*loc, index, "label"))
        if label in labels:
            raise RequestError(f"The label {shown(label)} is there twice.", (*loc, index, "label"))
        labels.append(label)
        descriptions.append(_description(level, (*loc, index)))
    levels = _levels(labels, descriptions)
    return _Asked(Score(instructions=text, criteria=levels), name, labels=tuple(labels))


def _levels(labels: Sequence[str], descriptions: Sequence[str | None]) -> list[Text]:
    """A level's text is "label: description"; where two would read alike although their labels
    differ, those with a description are objects."""
    levels = [a if b is None else f"{a}: {b}" for a, b in zip(labels, descriptions, strict=True)]
    alike = {text for text in levels if levels.count(text) > 1}
    if not alike:
        return list(levels)
    pairs = zip(labels, descriptions, strict=True)
    return [
        {"label": label, "description": said} if text in alike and said is not None else text
        for text, (label, said) in zip(levels, pairs, strict=True)
    ]


def _description(fields: Mapping[str, Any], loc: Loc) -> str | None:
    value = fields.get("description")
    if value is None:
        return None
    return string_of(value, "The description", (*loc, "description"), empty=True) or None


def _answer(asked: _Asked, answer: Answer) -> dict[str, object]:
    found: dict[str, object]
    if isinstance(answer, NoulAnswer):
        numbers = [answer.noul]
        found = {"type": "predicate", "name": asked.name, "probability": answer.noul}
    elif isinstance(answer, ChoiceAnswer):
        p = list(answer.probabilities.values())
        numbers = [*p, answer.confidence]
        chosen = list(answer.probabilities).index(answer.choice)
        found = {
            "type": "choice",
            "name": asked.name,
            "choice": asked.values[chosen],
            "probabilities": [
                {"value": value, "probability": q} for value, q in zip(asked.values, p, strict=True)
            ],
            "confidence": answer.confidence,
        }
    else:
        assert isinstance(answer, ScoreAnswer)
        p = list(answer.probabilities.values())
        numbers = [*p, answer.score, answer.confidence]
        found = {
            "type": "score",
            "name": asked.name,
            "score": answer.score,
            "probabilities": [
                {"value": level, "label": label, "probability": q}
                for level, (label, q) in enumerate(zip(asked.labels, p, strict=True))
            ],
            "confidence": answer.confidence,
        }
    if not all(map(math.isfinite, numbers)):
        raise NumericsError("An answer holds a number that is not finite.")
    return found
