"""What a language needs to make texts: domains of words, sentence patterns and question patterns.

A pattern is a string with slots: `{thing}` is drawn from the domain, `{Thing}` is the same with a
capital, and no slot of one pattern gets the same words twice.
"""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, TypeVar

from readoff.bench.records import Language

Family: TypeAlias = Literal[
    "routing", "rewriting", "relevance", "sufficiency", "navigation", "verification"
]
FAMILIES: tuple[Family, ...] = (
    "routing",
    "rewriting",
    "relevance",
    "sufficiency",
    "navigation",
    "verification",
)
T = TypeVar("T")
_ARTICLE = re.compile(r"\b([Aa]) (?=[aeio])")


class Dice:
    """Seeded draws that come out alike on every Python.

    Only `random.Random.random` is promised to stay the same between versions, so everything is
    built on it.
    """

    def __init__(self, *seed: object) -> None:
        self._random = random.Random("/".join(map(str, seed))).random

    def number(self, low: int, high: int) -> int:
        """A whole number from `low` to `high`, both included."""
        return low + int(self._random() * (high - low + 1))

    def pick(self, items: Sequence[T]) -> T:
        """One of `items`."""
        return items[self.number(0, len(items) - 1)]

    def sample(self, items: Sequence[T], count: int) -> list[T]:
        """`count` different places of `items`, in a drawn order."""
        rest = list(items)
        return [rest.pop(self.number(0, len(rest) - 1)) for _ in range(count)]


@dataclass(frozen=True)
class Domain:
    """The words of one field of business. Every event, remedy and condition fits every thing."""

    things: tuple[str, ...]
    events: tuple[str, ...]
    remedies: tuple[str, ...]
    conditions: tuple[str, ...]
    topics: tuple[str, ...]
    teams: tuple[str, ...]
    pages: tuple[str, ...]


@dataclass(frozen=True)
class Forms:
    """How one family asks: patterns of each question type.

    `options` are a choice's options: fixed names, or a slot such as "{team}" that names are drawn
    from. `levels` has the levels of each pattern of `score`.
    """

    choice: tuple[str, ...]
    options: tuple[str, ...]
    score: tuple[str, ...]
    levels: tuple[tuple[str, ...], ...]
    noul: tuple[str, ...]


@dataclass(frozen=True)
class Lexicon:
    """A language. `keys` are the field names of states, `joiner` stands between sentences."""

    language: Language
    joiner: str
    domains: tuple[Domain, ...]
    names: tuple[str, ...]
    dates: tuple[str, ...]
    plans: tuple[str, ...]
    messages: tuple[str, ...]
    replies: tuple[str, ...]
    passages: tuple[str, ...]
    steps: tuple[str, ...]
    fillers: tuple[str, ...]
    reference: str
    titles: tuple[str, ...]
    questions: tuple[str, ...]
    short: str
    claims: tuple[str, ...]
    keys: Mapping[str, str]
    forms: Mapping[Family, Forms]
    wanted: str
    sufficient: str
    next_link: str
    stop: str


class Writer:
    """Fills patterns of one language with the words of one domain."""

    def __init__(self, lexicon: Lexicon, domain: Domain, dice: Dice) -> None:
        self.lexicon = lexicon
        self.domain = domain
        self.dice = dice

    def fill(self, pattern: str) -> str:
        """`pattern` with every slot drawn."""
        text = pattern.format_map(_Slots(self))
        return _ARTICLE.sub(r"\1n ", text) if self.lexicon.language == "en" else text

    def write(self, patterns: Sequence[str]) -> str:
        """One of `patterns`, filled."""
        return self.fill(self.dice.pick(patterns))

    def sentences(self, *decks: Sequence[str], each: int = 1) -> Iterator[str]:
        """Sentences without end: `each` from the first deck, `each` from the next, and round again.

        A deck is gone through before any of its patterns comes again.
        """
        left: list[list[str]] = [[] for _ in decks]
        for turn in itertools.count():
            place = turn // each % len(decks)
            if not left[place]:
                left[place] = self.dice.sample(decks[place], len(decks[place]))
            yield self.fill(left[place].pop())

    def draw(self, slot: str) -> str:
        """Words for one slot."""
        lexicon, domain, dice = self.lexicon, self.domain, self.dice
        lists: dict[str, tuple[str, ...]] = {
            "thing": domain.things,
            "event": domain.events,
            "remedy": domain.remedies,
            "condition": domain.conditions,
            "topic": domain.topics,
            "team": domain.teams,
            "page": domain.pages,
            "name": lexicon.names,
            "date": lexicon.dates,
            "plan": lexicon.plans,
        }
        if slot in lists:
            return dice.pick(lists[slot])
        patterns = {
            "question": lexicon.questions,
            "claim": lexicon.claims,
            "short": (lexicon.short,),
        }
        if slot in patterns:
            return self.write(patterns[slot])
        ranges = {"days": (2, 30), "amount": (15, 980), "percent": (5, 95), "id": (1000, 99_999)}
        return str(dice.number(*ranges[slot]))


class _Slots(dict[str, str]):
    """The mapping behind `format_map`: every look-up is a fresh draw."""

    def __init__(self, writer: Writer) -> None:
        super().__init__()
        self._writer = writer
        self._used: set[str] = set()

    def __missing__(self, slot: str) -> str:
        words = self._writer.draw(slot.lower())
        for _ in range(20):
            if words not in self._used:
                break
            words = self._writer.draw(slot.lower())
        self._used.add(words)
        return words[0].upper() + words[1:] if slot[0].isupper() else words
