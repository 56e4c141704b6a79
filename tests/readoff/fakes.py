"""An engine without a model: the first option always wins, so that answers are known."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from readoff.engine.answers import Answer, Decision, Usage, build_answer
from readoff.engine.questions import Question


class FakeEngine:
    """Answers every question with logits n, n-1, … and remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[Any, tuple[str, ...], bool]] = []
        self.warm = False
        self.how: dict[str, Any] = {}

    def warmup(self) -> None:
        self.warm = True

    def info(self) -> dict[str, Any]:
        return {"device": "cpu", "dtype": "float32", "threads": 1}

    def decide(
        self,
        state: Any,
        questions: Mapping[str, Question],
        *,
        legal_mass: bool = False,
        **how: Any,
    ) -> Decision:
        self.how = how
        self.asked.append((state, tuple(questions), legal_mass))
        answers: dict[str, Answer] = {}
        for name, question in questions.items():
            logits = [float(-i) for i in range(len(question.options))]
            total = sum(map(math.exp, logits))
            probabilities = [math.exp(z) / total for z in logits]
            answers[name] = build_answer(
                question, logits, probabilities, 0.75 if legal_mass else None
            )
        return Decision(answers, Usage(30, 30, 0), 12.5, "fake-model")
