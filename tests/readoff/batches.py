"""Requests in lines, and an engine that some of them break."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from readoff.cli import main
from readoff.engine.answers import Decision
from readoff.engine.errors import ContextError, NumericsError, StepError, TemplateError
from readoff.engine.questions import Question
from tests.readoff.fakes import FakeEngine

ASKED: dict[str, Any] = {"refund": {"type": "noul"}}
TEAMS: dict[str, Any] = {"team": {"type": "choice", "criteria": {"büro": None, "tech": "x"}}}


class FakeMany(FakeEngine):
    """Fails for states that say so, and once `limit` calls were answered."""

    def __init__(self, limit: int | None = None) -> None:
        super().__init__()
        self.calls: list[tuple[int, bool]] = []
        self.limit = limit

    def decide_many(
        self,
        requests: Sequence[tuple[Any, Mapping[str, Question]]],
        *,
        legal_mass: bool = False,
    ) -> list[Decision]:
        if self.limit is not None and len(self.calls) >= self.limit:
            raise StepError("The pass failed: the machine is on fire.")
        self.calls.append((len(requests), legal_mass))
        states = [str(state) for state, _ in requests]
        if any("long" in state for state in states):
            raise ContextError("9 tokens and the model takes 5.", limit=5, length=9)
        if any("labels" in state for state in states):
            raise TemplateError("255 options need 255 labels, and there are 200.")
        if any("poison" in state for state in states):
            raise NumericsError("Question 'q': the logits aren't finite.")
        return [self.decide(*request, legal_mass=legal_mass) for request in requests]


def call(*arguments: str) -> int:
    """The exit code of `readoff batch ARGUMENTS`."""
    with pytest.raises(SystemExit) as exit_:
        main(("batch", *arguments))
    code = exit_.value.code
    return code if isinstance(code, int) else 0


def line(state: Any, **more: Any) -> bytes:
    content = {"state": state, "questions": ASKED} | more
    return json.dumps(content, ensure_ascii=False).encode() + b"\n"


def write(path: str, *lines: bytes) -> None:
    Path(path).write_bytes(b"".join(lines))


def read(path: str) -> list[dict[str, Any]]:
    data = Path(path).read_bytes()
    assert data.endswith(b"\n") or not data
    return [json.loads(text) for text in data.decode().splitlines()]
