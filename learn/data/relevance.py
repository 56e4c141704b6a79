"""Relevance: how well a message fits a topic, another message, or an open page.

Levels between "unrelated" and "exactly this" are matters of degree, and no annotator drew their
borders: their targets leave some mass to the neighbouring levels. The outermost levels are sure.
"""

from __future__ import annotations

from collections.abc import Mapping

from readoff.bench.records import Language, Target
from readoff.bench.workloads.lexicon import Dice
from readoff.engine.questions import Score
from readoff.learn.data import fixed_words
from readoff.learn.data.desk import Desk
from readoff.learn.data.draft import Draft, chance
from readoff.learn.data.messages import Message
from readoff.learn.data.voice import Voice

GRADES = ("other", "area", "alike", "same")

_TARGETS: Mapping[int, Mapping[str, tuple[float, ...]]] = {
    2: {"other": (0.97, 0.03), "same": (0.03, 0.97)},
    3: {
        "other": (0.95, 0.05, 0.0),
        "area": (0.1, 0.82, 0.08),
        "alike": (0.05, 0.82, 0.13),
        "same": (0.0, 0.05, 0.95),
    },
    4: {
        "other": (0.93, 0.07, 0.0, 0.0),
        "area": (0.12, 0.68, 0.18, 0.02),
        "alike": (0.02, 0.25, 0.63, 0.1),
        "same": (0.0, 0.0, 0.07, 0.93),
    },
    5: {
        "other": (0.9, 0.1, 0.0, 0.0, 0.0),
        "area": (0.15, 0.5, 0.25, 0.1, 0.0),
        "alike": (0.0, 0.15, 0.32, 0.45, 0.08),
        "same": (0.0, 0.0, 0.0, 0.08, 0.92),
    },
}


def topic(desk: Desk, voice: Voice, message: Message) -> Draft:
    """A score of a message against a topic, sometimes asked the other way round: how far off."""
    dice = voice.dice
    reverse = chance(dice, 0.2)
    levels = dice.pick((2, 3, 3, 3, 4, 4) if reverse else (2, 3, 3, 3, 4, 4, 5))
    grade = draw_grade(dice, levels)
    name, grade = _intent(desk, message, grade, dice)
    intent = desk.catalogue.intents[name]
    words = voice.wish(intent) if chance(dice, 0.5) else voice.about(intent)
    asked = voice.ask("distance" if reverse else "topic", topic=words)
    same = desk.posterior.of(message, name)
    near = desk.area_guess(message, intent.area)
    guess = (1.0 - near, near - same, same) if levels == 3 and not reverse else None
    return _draft("topic", voice, asked, levels, grade, reverse, guess)


def pair(voice: Voice, grade: str) -> Draft:
    """A score of how closely two messages, whose relation is `grade`, are related."""
    levels = voice.dice.pick((3, 3, 4, 5)) if grade in ("area", "alike") else 0
    levels = levels or voice.dice.pick((2, 3, 3, 4, 5))
    return _draft("pair", voice, voice.ask("pair_score"), levels, grade)


def page(voice: Voice, grade: str) -> Draft:
    """A score of how near an open page is to a goal."""
    levels = voice.dice.pick((3, 3, 4))
    return _draft("page", voice, voice.ask("page_score"), levels, grade)


def draw_grade(dice: Dice, levels: int) -> str:
    """A grade, so that every level that can be right is so equally often."""
    if levels == 2:
        return dice.pick(("other", "same"))
    if levels == 3:
        return dice.pick(("other", "other", "area", "alike", "same", "same"))
    return dice.pick(GRADES)


def _intent(desk: Desk, message: Message, grade: str, dice: Dice) -> tuple[str, str]:
    """An intent that stands in this relation to the message's own, and the grade that it got."""
    for how in (grade, *(("area",) if grade == "alike" else ()), "other"):
        if how == "same":
            break
        if names := desk.negatives(message, how):
            return dice.pick(names), how
    return message.intent, "same"


def _draft(
    kind: str,
    voice: Voice,
    asked: str,
    levels: int,
    grade: str,
    reverse: bool = False,
    guess: tuple[float, ...] | None = None,
) -> Draft:
    table: Mapping[Language, Mapping[int, tuple[tuple[str, ...], ...]]]
    table = fixed_words.DISTANCES if reverse else fixed_words.LEVELS
    shares = _TARGETS[levels][grade]
    if reverse:
        shares = shares[::-1]
    question = Score(
        instructions=asked, criteria=list(voice.dice.pick(table[voice.language][levels]))
    )
    target: Target = {str(level): share for level, share in enumerate(shares) if share > 0.0}
    return Draft("relevance", kind, question, target, guess=guess)
