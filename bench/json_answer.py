"""What JSON rungs ask for and how their answers are read: the chat, the object, its failures."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from readoff.bench.records import Given
from readoff.engine.questions import Choice, Question, Score
from readoff.engine.text import render_entry, render_text

MAX_NEW_TOKENS = 64
"""The least token limit of an answer: three times what a well-formed one takes."""
_AROUND = 40  # tokens of the object around a long name

Value: TypeAlias = str | int | bool

_STRING = re.compile(r'"(?:[^"\\]|\\.)*(?:"|\\?$)', re.DOTALL)
_VALUE = re.compile(r'"(?:choice|score|answer)"\s*:\s*("(?:[^"\\]|\\.)*"|[^\s,}]+)')


def messages(state: Any, question: Question) -> list[dict[str, str]]:
    """The chat of one question: the state, the question, and the shape of the answer."""
    shape, options = _answer_shape(question)
    asked = "Decide." if question.instructions is None else render_text(question.instructions)
    lines = [render_text(state), "", asked, *options, "", f"Answer with JSON only: {shape}"]
    return [
        {"role": "system", "content": "You answer with one JSON object and nothing else."},
        {"role": "user", "content": "\n".join(lines)},
    ]


def _answer_shape(question: Question) -> tuple[str, list[str]]:
    """(the object to answer with, one line an option)."""
    if isinstance(question, Choice):
        entries = [
            render_entry(f"- {name}" if text is None else f"- {name}:", text)
            for name, text in question.criteria.items()
        ]
        return '{"choice": "<one option>", "confidence": <0 to 1>}', entries
    if isinstance(question, Score):
        entries = [render_entry(f"{i} =", text) for i, text in enumerate(question.criteria)]
        return '{"score": <level>, "confidence": <0 to 1>}', entries
    criteria = (question.criteria or {}).items()
    entries = [render_entry(f"{name}:", text) for name, text in criteria if text is not None]
    return '{"answer": <true or false>, "confidence": <0 to 1>}', entries


def parse(text: str, question: Question) -> tuple[Value | None, float | None, str | None]:
    """(value, confidence, failure) of a generated answer; text around the object is tolerated."""
    start, end = text.find("{"), text.rfind("}")
    if start < 0 or end < start:
        return None, None, "no JSON object"
    try:
        answer = json.loads(text[start : end + 1])
    except json.JSONDecodeError as error:
        return None, None, f"not JSON: {error.msg}"
    value, failure = _value(answer, question)
    confidence = answer.get("confidence")
    number = isinstance(confidence, int | float) and not isinstance(confidence, bool)
    if not (number and 0 <= confidence <= 1):
        return value, None, failure or "no confidence between 0 and 1"
    return value, float(confidence), failure


def token_limit(question: Question) -> int:
    """The most tokens that an answer may take: `MAX_NEW_TOKENS`, or more where an option's name
    could take them by itself (a byte has one token at most)."""
    longest = max(len(json.dumps(name, ensure_ascii=False).encode()) for name in question.options)
    return max(MAX_NEW_TOKENS, _AROUND + longest)


def is_closed(text: str) -> bool:
    """Whether the object in a text has ended: by a brace outside of strings."""
    bare = _STRING.sub("", text)
    return bare.count("}") >= max(1, bare.count("{"))


def option_of(value: Value | None) -> str | None:
    """The name in `question.options` of a value as `parse` gives it."""
    return str(value).lower() if isinstance(value, bool) else None if value is None else str(value)


def legal_values(question: Question) -> tuple[Value, ...]:
    """What the first entry may hold, in the order of the options."""
    if isinstance(question, Choice):
        return question.options
    return tuple(range(len(question.options))) if isinstance(question, Score) else (True, False)


def answer_key(question: Question) -> str:
    """The key of the object's first entry."""
    if isinstance(question, Choice):
        return "choice"
    return "score" if isinstance(question, Score) else "answer"


def token_confidence(
    tokens: Sequence[int],
    probabilities: Sequence[float],
    decode: Callable[[Sequence[int]], str],
) -> float | None:
    """The probability of the tokens that spell the answer's value, one factor a token.

    A text value counts from its first character to its closing quote, which tells "sale" from
    "sales". None where no value can be found.
    """
    match = _VALUE.search(decode(tokens))
    if match is None:
        return None
    start, end = match.span(1)
    start += match[1].startswith('"')
    ends = [len(decode(tokens[: n + 1])) for n in range(len(tokens))]
    starts = [0, *ends]
    spelled = [
        p for p, a, b in zip(probabilities, starts, ends, strict=False) if b > start and a < end
    ]
    return math.prod(spelled) if spelled else None


def given_from(text: str, question: Question, confidence: float | None) -> Given:
    """A generated text as a record. `confidence`: see `token_confidence`."""
    value, stated, failure = parse(text, question)
    return Given(option_of(value), stated=stated, token_confidence=confidence, failure=failure)


def _value(answer: Mapping[str, Any], question: Question) -> tuple[Value | None, str | None]:
    key = answer_key(question)
    legal: tuple[Value, ...] = legal_values(question)
    if key not in answer:
        return None, f"no {key!r} in the object"
    found = answer[key]
    for value in legal:
        if type(found) is type(value) and found == value:
            return value, None
    return None, f"{found!r} is no legal {key}"
