"""Labels that are baked into a graph: all that a card's questions may have, or one question's."""

from __future__ import annotations

from collections.abc import Iterator

from readoff.engine.card import Card
from readoff.engine.errors import TemplateError
from readoff.engine.labels import Alphabet
from readoff.engine.questions import Choice, Noul, Question, Score
from readoff.export.graph.options import FixedLabels, LabelBank

_MOST_OPTIONS, _MOST_LEVELS = 255, 10


def bank(alphabet: Alphabet) -> LabelBank:
    """Every label that any question can have with this tokenizer, cue and card."""
    ids = {i for question in _questions() for i in _labels(alphabet, question)}
    return LabelBank(tuple(sorted(ids)))


def fixed(alphabet: Alphabet, card: Card, question: Question) -> FixedLabels:
    """The labels of `question` with the card's prior and temperature for it.

    Raises TemplateError where there aren't enough labels.
    """
    kind, options = question.type, len(question.options)
    return FixedLabels(
        alphabet.for_question(question).ids,
        card.prior_for(kind, None, options),
        card.temperature_for(kind, None, options),
    )


def _questions() -> Iterator[Question]:
    """One of every kind and size."""
    yield Noul()
    for count in range(2, _MOST_LEVELS + 1):
        yield Score(criteria=[str(n) for n in range(count)])
    for count in range(2, _MOST_OPTIONS + 1):
        yield Choice(criteria=dict.fromkeys(map(str, range(count))))


def _labels(alphabet: Alphabet, question: Question) -> tuple[int, ...]:
    try:
        return alphabet.for_question(question).ids
    except TemplateError:
        return ()  # too many options for the card's labels: nobody can ask this
