"""A converted decision before sampling, and sampling that balances."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass

from readoff.bench.records import Ask
from readoff.bench.workloads.lexicon import Dice
from readoff.engine.questions import Choice, Question
from readoff.engine.text import Text


@dataclass(frozen=True)
class Item:
    """A decision and the class that sampling balances over, as a rule its answer."""

    ask: Ask
    stratum: Hashable


def named(state: Text, name: str, question: Question, option: str) -> Item:
    """A decision with one question, called `name`, whose answer is `option`."""
    if option not in question.options:
        raise ValueError(f'the answer "{option}" is none of the options')
    return Item(Ask(state, {name: question}, {name: {option: 1.0}}), option)


def balanced(items: Iterable[Item], limit: int | None, seed: int) -> list[Ask]:
    """At most `limit` items in a drawn order, as equal a number of each stratum as there is."""
    dice = Dice(seed, "balanced")
    strata: dict[Hashable, list[Ask]] = {}
    for item in items:
        strata.setdefault(item.stratum, []).append(item.ask)
    piles = [dice.sample(pile, len(pile)) for pile in strata.values()]
    wanted = sum(map(len, piles)) if limit is None else limit
    chosen: list[Ask] = []
    while len(chosen) < wanted and piles:
        # The strata that come first differ from round to round: a short round favours none.
        drawn = dice.sample(piles, len(piles))[: wanted - len(chosen)]
        chosen += [pile.pop() for pile in drawn]
        piles = [pile for pile in piles if pile]
    return dice.sample(chosen, len(chosen))


def shuffled(question: Choice, key: object) -> Choice:
    """The same choice with its options in an order that depends on `key` only."""
    options = list(question.criteria.items())
    order = Dice("options", key).sample(options, len(options))
    return Choice(instructions=question.instructions, criteria=dict(order))
