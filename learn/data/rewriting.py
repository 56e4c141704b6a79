"""Rewriting: do two messages ask for the same, and which of several asks for the same?

Messages of one intent are not paraphrases word by word, so the questions ask for the same kind of
request. Pairs that ask for the same share few words where that can be had, others share many.
"""

from __future__ import annotations

from readoff.learn.data import fixed_words
from readoff.learn.data.desk import Desk, pick_overlap
from readoff.learn.data.draft import Draft, chance, noul, permuted, verdict
from readoff.learn.data.messages import Message
from readoff.learn.data.voice import Voice

_SURE = {"same": 0.96, "alike": 0.07, "area": 0.03, "other": 0.01}
"""How probably two messages ask for the same, by the relation of their intents: alike ones are
those that annotators and classifiers confuse."""

_LONGEST = 110  # characters of a message that is an option


def partner(desk: Desk, voice: Voice, message: Message, grade: str) -> Message | None:
    """A message whose intent stands in the relation `grade` to that of `message`."""
    dice = voice.dice
    if grade == "same":
        return desk.another(message, message.intent, dice, overlap=pick_overlap(dice, "low"))
    names = desk.negatives(message, grade)
    if not names:
        return None
    return desk.another(message, dice.pick(names), dice, overlap=pick_overlap(dice, "high"))


def same(desk: Desk, voice: Voice, first: Message, second: Message, grade: str) -> Draft:
    """Whether two messages ask for the same: a noul either way round, or a choice of two."""
    dice = voice.dice
    share = _SURE[grade]
    if chance(dice, 0.25):
        yes, no = dice.pick(fixed_words.PAIR_VERDICTS[voice.language])
        question = permuted(voice.pick(fixed_words.PAIR_ASKS), {yes: None, no: None}, dice)
        return Draft("rewriting", "same", question, {yes: share, no: 1.0 - share})
    reverse = chance(dice, 0.5)
    asked = voice.ask("different" if reverse else "same")
    question_ = noul(asked, voice.sides(), dice)
    alike = sum(
        desk.posterior.of(first, name) * desk.posterior.of(second, name)
        for name in desk.catalogue.intents
    )
    guess = (1.0 - alike, alike) if reverse else (alike, 1.0 - alike)
    return Draft(
        "rewriting", "same", question_, verdict(1.0 - share if reverse else share), guess=guess
    )


def pick(desk: Desk, voice: Voice, message: Message) -> Draft | None:
    """A choice among messages, one of which has the same intent; None where there is none."""
    dice = voice.dice
    overlap = pick_overlap(dice, "low")
    right = desk.another(message, message.intent, dice, overlap=overlap, longest=_LONGEST)
    if right is None:
        return None
    count = dice.pick((1, 2, 3, 3, 4, 5))
    wrong: dict[str, Message] = {}
    for _ in range(4 * count):
        if len(wrong) == count:
            break
        name = desk.negative(message, dice)
        other = desk.another(
            message, name, dice, overlap=pick_overlap(dice, "high"), longest=_LONGEST
        )
        if other is not None and other.key != right.key and name not in wrong:
            wrong[name] = other
    if not wrong:
        return None
    options = {right.text: None} | {other.text: None for other in wrong.values()}
    question = permuted(voice.ask("pick"), options, dice)
    share = 0.96
    target = {option: (1.0 - share) / len(wrong) for option in options}
    return Draft("rewriting", "pick", question, target | {right.text: share})
