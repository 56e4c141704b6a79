"""A search step: is each document relevant, do they suffice, which link is next, stop?

The requests are the same in both orders of the template. State first, every document is a new
state with the query behind it; question first, the question with the query is shared and the
documents follow it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import get_args

from readoff.bench.records import Ask, Language, Workload
from readoff.bench.workloads.asked import QUESTION_TOKENS
from readoff.bench.workloads.lexicon import Dice, Lexicon, Writer
from readoff.bench.workloads.ruler import Ruler
from readoff.bench.workloads.states import make_document
from readoff.engine.questions import Choice, Noul, Question, Score
from readoff.engine.template import Order
from readoff.engine.text import Text

DOCUMENTS = (5, 20, 100)
DOCUMENT_TOKENS = (200, 400)
KEPT = 3
"""How many documents the closing request sees: those that a search would have kept."""


@dataclass(frozen=True)
class Step:
    """One step: a request for each document, then the closing one over what was kept."""

    documents: tuple[Ask, ...]
    final: Ask


def search(
    lexicon: Lexicon, ruler: Ruler, *, seed: int, documents: Sequence[int], steps: int
) -> Iterator[Workload]:
    """For each number of documents and each order, a workload of `steps` steps.

    `steps_of` takes it apart again. Every other step asks for relevance as a score instead of a
    yes or no. Fewer documents are the first ones of more. The axes "question_first" (0 or 1),
    "steps" and "documents" describe the grouping.
    """
    longest = max(documents, default=0)
    made = [
        _step(lexicon, ruler, Dice(seed, "search", lexicon.language, index), index, longest)
        for index in range(steps)
    ]
    for count, order in itertools.product(documents, get_args(Order)):
        yield _workload(lexicon.language, made, count, order)


def _workload(language: Language, made: Sequence[Step], documents: int, order: Order) -> Workload:
    return Workload(
        name=f"search-{language}-d{documents}-{order}",
        kind="search",
        language=language,
        asks=[ask for step in made for ask in (*step.documents[:documents], step.final)],
        axes={
            "documents": documents,
            "document_tokens": sum(DOCUMENT_TOKENS) / 2,
            "questions": documents + 3,
            "question_tokens": QUESTION_TOKENS,
            "steps": len(made),
            "question_first": float(order == "question-first"),
        },
    )


def steps_of(workload: Workload) -> Iterator[Step]:
    """The steps of a workload that `search` made."""
    documents = int(workload.axes["documents"])
    for start in range(0, len(workload.asks), documents + 1):
        *first, final = workload.asks[start : start + documents + 1]
        yield Step(tuple(first), final)


def order_of(workload: Workload) -> Order:
    """The order of the template that a workload is meant for."""
    return "question-first" if workload.axes.get("question_first") else "state-first"


def _step(lexicon: Lexicon, ruler: Ruler, dice: Dice, index: int, documents: int) -> Step:
    home = dice.pick(lexicon.domains)
    writer = Writer(lexicon, home, dice)
    query = writer.draw("question")
    # Draws that don't depend on the number of documents come first: smaller steps begin alike.
    links = dice.sample(home.pages, dice.number(4, 6))
    relevance = _relevance(lexicon, query, score=index % 2 == 1)
    asks, kept = [], []
    for number in range(documents):
        # Most results share the query's field, as a search engine's do; the rest are noise.
        domain = home if number < KEPT or dice.number(1, 3) > 1 else dice.pick(lexicon.domains)
        target = dice.number(*DOCUMENT_TOKENS)
        text = make_document(target, Writer(lexicon, domain, dice), ruler)
        asks.append(Ask(text, {"relevance": relevance}))
        if number < KEPT:
            kept.append(text)
    return Step(tuple(asks), _final(lexicon, query, kept, links))


def _relevance(lexicon: Lexicon, query: str, *, score: bool) -> Question:
    wanted = lexicon.wanted.format(query=query)
    if score:
        return Score(instructions=wanted, criteria=lexicon.forms["relevance"].levels[0])
    return Noul(instructions=wanted)


def _final(lexicon: Lexicon, query: str, kept: list[Text], links: list[str]) -> Ask:
    keys = lexicon.keys
    state = {keys["query"]: query, keys["documents"]: kept, keys["links"]: links}
    questions: dict[str, Question] = {
        "sufficient": Noul(instructions=lexicon.sufficient),
        "next_link": Choice(instructions=lexicon.next_link, criteria=dict.fromkeys(links)),
        "stop": Noul(instructions=lexicon.stop),
    }
    return Ask(state, questions)
