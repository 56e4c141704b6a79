"""The dialect of OpenAI-compatible chat endpoints: one call a question, JSON mode."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from readoff.bench.json_answer import given_from, messages, token_limit
from readoff.bench.records import Given
from readoff.engine.questions import Question
from readoff.engine.text import Text

CUT_SHORT = "cut off at the token limit"
"""What a model that thinks first comes to: its server has to be told not to."""


def request_json(state: Text, question: Question, model: str) -> dict[str, Any]:
    """The body that asks one question, greedily, for a JSON object."""
    return {
        "model": model,
        "messages": messages(state, question),
        "temperature": 0,
        "max_tokens": token_limit(question),
        "response_format": {"type": "json_object"},
        "stream": False,
    }


def read(body: Any, question: Question) -> tuple[Given, int, int]:
    """(the answer, prompt tokens, completion tokens). What can't be right is a named failure."""
    usage = body.get("usage") if isinstance(body, Mapping) else None
    counts = [
        value if isinstance(value := (usage or {}).get(key), int) else 0
        for key in ("prompt_tokens", "completion_tokens")
    ]
    try:
        choice = body["choices"][0]
        text = choice["message"]["content"]
    except (KeyError, IndexError, TypeError):
        return Given(None, failure="no chat completion"), counts[0], counts[1]
    if not isinstance(text, str):
        return Given(None, failure="no text in the completion"), counts[0], counts[1]
    given = given_from(text, question, None)
    if given.value is None and choice.get("finish_reason") == "length":
        given = Given(None, failure=CUT_SHORT)
    return given, counts[0], counts[1]
