"""Verification: does a claim about a message or a form hold?

Claims are true or false, and put positively or negatively, independently of each other, so that
neither a claim's form nor its subject tells whether it holds.
"""

from __future__ import annotations

from readoff.bench.records import Target
from readoff.learn.data import fixed_words
from readoff.learn.data.desk import Desk
from readoff.learn.data.draft import Draft, chance, noul, permuted, verdict
from readoff.learn.data.messages import Message
from readoff.learn.data.voice import Voice

_SURE = 0.97  # a claim derived from intents can be wrong where a message means two things


def claim(desk: Desk, voice: Voice, message: Message, lead: str = "", other: str = "") -> Draft:
    """Whether a message has an intent: a noul, or a choice of yes and no.

    `lead` is put before the claim; `other` is an intent for false claims, else one is drawn.
    """
    dice = voice.dice
    own = chance(dice, 0.5)
    name = message.intent if own else other or desk.negative(message, dice)
    intent = desk.catalogue.intents[name]
    slots = {"wish": voice.wish(intent), "about": voice.about(intent)}
    negated = chance(dice, 0.5)
    kind = "claim_false" if negated else ("claim_asked" if chance(dice, 0.5) else "claim_true")
    asked = lead + voice.ask(kind, **slots)
    share = _SURE if own != negated else 1.0 - _SURE
    has = desk.posterior.of(message, name)
    guess = (1.0 - has, has) if negated else (has, 1.0 - has)
    if chance(dice, 0.25):
        yes, no = dice.pick(fixed_words.YES_NO[voice.language])
        question = permuted(asked, {yes: None, no: None}, dice)
        return Draft("verification", "claim", question, {yes: share, no: 1.0 - share})
    question_ = noul(asked, voice.sides(), dice)
    return Draft("verification", "claim", question_, verdict(share), guess=guess)


def three_way(desk: Desk, voice: Voice, message: Message) -> Draft:
    """Whether a message supports a claim, leaves it open or contradicts it.

    What a message is about can be read off it; things about its writer are open.
    """
    dice = voice.dice
    place = dice.number(0, 2)  # supported, open, contradicted
    if place == 1:
        said = voice.fill(voice.pick(fixed_words.BEYOND))
    else:
        own = chance(dice, 0.5)
        name = message.intent if own else desk.negative(message, dice, alike=0.3)
        intent = desk.catalogue.intents[name]
        slots = {"wish": voice.wish(intent), "about": voice.about(intent)}
        said = voice.ask("claim_true" if own == (place == 0) else "claim_false", **slots)
    words = dice.pick(fixed_words.VERDICTS[voice.language])
    described = chance(dice, 0.5)
    options = {name: (about or None) if described else None for name, about in words}
    shares = [(1.0 - _SURE) / 2] * 3
    shares[place] = _SURE
    target: Target = dict(zip(options, shares, strict=True))
    question = permuted(voice.ask("three_way", claim=said), dict(options), dice)
    return Draft("verification", "three_way", question, target)


def fact(voice: Voice, slot: str, value: str, holds: bool) -> Draft:
    """Whether a form says `value` for `slot`."""
    negated = chance(voice.dice, 0.5)
    asked = voice.ask("fact_false" if negated else "fact_true", slot=slot, answer=value)
    question = noul(asked, voice.sides(), voice.dice)
    return Draft("verification", "fact", question, verdict(float(holds != negated)))
