"""One question with its answer, before it becomes part of a row; and draws of probability."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from readoff.bench.records import Target
from readoff.bench.workloads.lexicon import Dice, Family
from readoff.engine.questions import Choice, Noul, Question
from readoff.engine.text import Text
from readoff.learn.data.errors import DataError


@dataclass(frozen=True)
class Draft:
    """A question and its target, which sums to 1 over some of `question.options`.

    `human` says whether people gave this very label; else it was derived from one. `guess` is what
    the classifier of words thinks, by option, where every question of this `kind` has the same
    options; None where it can't be told.
    """

    family: Family
    kind: str
    question: Question
    target: Target
    human: bool = False
    guess: Sequence[float] | None = None

    def __post_init__(self) -> None:
        outside = [label for label in self.target if label not in self.question.options]
        if outside:
            raise DataError(f'The label "{outside[0]}" of {self.kind} is none of its options.')
        total = math.fsum(self.target.values())
        if not math.isclose(total, 1.0, abs_tol=1e-9) or min(self.target.values()) < 0.0:
            raise DataError(f"The target of {self.kind} sums to {total} and must sum to 1.")

    @property
    def answer(self) -> str:
        """The label with the largest share."""
        return max(self.target, key=self.target.__getitem__)


def chance(dice: Dice, probability: float) -> bool:
    """True with `probability`, which counts in thousandths."""
    return dice.number(1, 1000) <= round(probability * 1000)


def draw(dice: Dice, weights: Mapping[str, float]) -> str:
    """A key, as often as its share of the weights."""
    ticket = dice.number(1, 1_000_000) / 1_000_000 * math.fsum(weights.values())
    for key, weight in weights.items():
        ticket -= weight
        if ticket <= 0.0:
            return key
    return key


def noul(instructions: str, sides: tuple[str, str] | None, dice: Dice) -> Noul:
    """A noul, whose criteria are both `sides`, one of them, or absent."""
    if sides is None:
        return Noul(instructions=instructions)
    true, false = sides
    if chance(dice, 0.2):
        return Noul(instructions=instructions, criteria={"true": true})
    return Noul(instructions=instructions, criteria={"true": true, "false": false})


def verdict(share: float) -> Target:
    """The target of a noul that is true with probability `share`."""
    shares = {"true": share, "false": 1.0 - share}
    return {label: part for label, part in shares.items() if part > 0.0}


def permuted(instructions: str, options: Mapping[str, Text | None], dice: Dice) -> Choice:
    """A choice with its options in a drawn order."""
    order = dice.sample(list(options.items()), len(options))
    return Choice(instructions=instructions, criteria=dict(order))
