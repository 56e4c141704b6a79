"""What questions are made from: the messages of one source and split, and what is alike there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from readoff.bench.workloads.lexicon import Dice
from readoff.learn.data.catalogue import Catalogue
from readoff.learn.data.draft import chance
from readoff.learn.data.messages import OUT_OF_SCOPE, Message
from readoff.learn.data.posterior import Posterior

DOUBTFUL = 0.15
"""From this probability of the second opinion on, a message may well have another intent too, and
no derived negative is made of it."""

_ALIKE = 4  # how many of the intents that are taken for one another most count as alike


@dataclass(frozen=True)
class Desk:
    """The messages of one split of one source, its catalogue and its second opinion."""

    source: str
    catalogue: Catalogue
    posterior: Posterior
    messages: Sequence[Message]

    @cached_property
    def pool(self) -> Mapping[str, Sequence[Message]]:
        """Messages by intent, those out of scope among them."""
        found: dict[str, list[Message]] = {}
        for message in self.messages:
            found.setdefault(message.intent, []).append(message)
        return found

    def area(self, intent: str) -> str:
        """The area of an intent."""
        return self.catalogue.intents[intent].area

    def alike(self, intent: str) -> list[str]:
        """The intents of the same area that are taken for `intent` most."""
        mates = self.catalogue.of_area(self.area(intent))
        return self.posterior.most_alike(intent, mates)[:_ALIKE]

    def negatives(self, message: Message, how: str) -> list[str]:
        """Intents that `message` doesn't have, nor may well have: `how` is "alike", "area" (the
        same area, not alike) or "other" (nothing to do with it). None is kin to its own."""
        intent = message.intent
        alike = self.alike(intent)
        if how == "alike":
            names = alike
        elif how == "area":
            mates = self.catalogue.of_area(self.area(intent))
            names = [name for name in mates if name != intent and name not in alike]
        else:
            taken_for = self.posterior.most_alike(intent, list(self.catalogue.intents))[:_ALIKE]
            names = [name for name in self.catalogue.unrelated(intent) if name not in taken_for]
        kin = self.catalogue.intents[intent].kin
        return [
            name
            for name in names
            if name not in kin and self.posterior.of(message, name) < DOUBTFUL
        ]

    def negative(self, message: Message, dice: Dice, alike: float = 0.5, area: float = 0.25) -> str:
        """An intent that `message` doesn't have, with these shares of the kinds of `negatives`."""
        turn = dice.number(1, 1000) / 1000
        order = ["alike", "area", "other"]
        first = 0 if turn <= alike else 1 if turn <= alike + area else 2
        for how in [order[first], *order[::-1]]:
            if names := self.negatives(message, how):
                return dice.pick(names)
        barred = {message.intent, *self.catalogue.intents[message.intent].kin}
        return dice.pick([name for name in self.catalogue.intents if name not in barred])

    def another(
        self, message: Message, intent: str, dice: Dice, *, overlap: str, longest: int = 400
    ) -> Message | None:
        """Another message with `intent`. `overlap` says how many words it shares with `message`:
        "low" and "high" take an extreme of a few drawn ones, "any" takes the first.

        So words in common say little about whether two messages ask for the same.
        """
        others = [
            other
            for other in self.pool.get(intent, ())
            if other.key != message.key and len(other.text) <= longest
        ]
        drawn = dice.sample(others, min(8, len(others)))
        if intent != message.intent:
            drawn = [o for o in drawn if self.posterior.of(o, message.intent) < DOUBTFUL]
        if not drawn:
            return None
        if overlap == "any":
            return drawn[0]
        shared = [_overlap(message, other) for other in drawn]
        best = int(np.argmin(shared) if overlap == "low" else np.argmax(shared))
        return drawn[best]

    def scoped(self) -> list[Message]:
        """The messages that have an intent."""
        return [message for message in self.messages if message.intent != OUT_OF_SCOPE]

    def area_guess(self, message: Message, area: str) -> float:
        """The second opinion's probability that `message` is of `area`."""
        return sum(self.posterior.of(message, name) for name in self.catalogue.of_area(area))


def pick_overlap(dice: Dice, towards: str) -> str:
    """`towards` for some of the draws, else "any": so many that words in common are hardly more
    frequent between messages that ask for the same than between others."""
    return towards if chance(dice, 0.4) else "any"


def _overlap(first: Message, second: Message) -> float:
    ours, theirs = set(first.key.split()), set(second.key.split())
    return len(ours & theirs) / max(1, len(ours | theirs))
