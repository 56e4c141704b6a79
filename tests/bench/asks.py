"""Engines of tiny models and requests for them, shared by the tests of the ladder."""

from __future__ import annotations

from collections.abc import Mapping

from readoff.bench.records import Ask, Workload
from readoff.engine.questions import Choice, Noul, Question, Score

QUESTIONS: Mapping[str, Question] = {
    "team": Choice(
        instructions="Which team?", criteria={"sale": "New orders", "sales": None, "tech": "Bugs"}
    ),
    "anger": Score(criteria=["calm", "cross", "furious"]),
    "due": Noul(instructions="A refund is due."),
}


def ask(text: str = "The invoice was paid twice.", names: str = "team anger due") -> Ask:
    """A request of some of the questions."""
    return Ask(text, {name: QUESTIONS[name] for name in names.split()})


def workload(*asks: Ask) -> Workload:
    """A workload of these requests, three different ones by default."""
    texts = ("The invoice was paid twice.", "Nothing works, and it is late!", "I'd like ten more.")
    return Workload("many questions", "many", "en", asks or tuple(ask(text) for text in texts))
