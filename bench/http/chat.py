"""The dialect of OpenAI-compatible chat endpoints: one call a question, JSON mode."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from readoff.bench.json_answer import MAX_NEW_TOKENS, given_from, messages
from readoff.bench.records import Given
from readoff.engine.questions import Question
from readoff.engine.text import Text


def request_json(state: Text, question: Question, model: str) -> dict[str, Any]:
    """The body that asks one question, greedily, for a JSON object."""
    return {
        "model": model,
        "messages": messages(state, question),
        "temperature": 0,
        "max_tokens": MAX_NEW_TOKENS,
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
        text = body["choices"][0]["message"]["content"]
    except (KeyError, IndexError, TypeError):
        return Given(None, failure="no chat completion"), counts[0], counts[1]
    if not isinstance(text, str):
        return Given(None, failure="no text in the completion"), counts[0], counts[1]
    return given_from(text, question, None), counts[0], counts[1]
