"""Rows of each shape: which questions stand together on one state."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from readoff.bench.records import Language
from readoff.bench.workloads.lexicon import Dice
from readoff.learn.data import (
    forms,
    navigation,
    relevance,
    rewriting,
    routing,
    states,
    sufficiency,
    verification,
)
from readoff.learn.data.desk import Desk
from readoff.learn.data.draft import Draft, chance, draw
from readoff.learn.data.fixed_words import POSITIONS
from readoff.learn.data.messages import OUT_OF_SCOPE, Message, Split
from readoff.learn.data.row import Row
from readoff.learn.data.voice import Voice

BUILT = "forms"
"""The source of rows that hold no message of others; they are our own."""
BUILT_LICENCE = "CC0-1.0"

_GRADES = {"same": 0.45, "alike": 0.22, "area": 0.13, "other": 0.2}
_PAGE_GRADES = {"same": 0.4, "alike": 0.22, "area": 0.16, "other": 0.22}


def message_row(
    desk: Desk,
    licence: str,
    split: Split,
    message: Message,
    language: Language,
    dice: Dice,
    sizes: Sequence[int],
    extras: Sequence[str],
) -> Row:
    """One message: a routing question of each of `sizes`, and the questions that `extras` name."""
    voice = Voice(language, dice)
    most = len(desk.catalogue.intents)
    drafts: list[Draft | None] = [
        routing.routing(desk, voice, message, min(size, most)) for size in sizes
    ]
    makers: dict[str, Callable[[], Draft | None]] = {
        "area": lambda: routing.area(desk, voice, message),
        "topic": lambda: relevance.topic(desk, voice, message),
        "claim": lambda: verification.claim(desk, voice, message),
        "three_way": lambda: verification.three_way(desk, voice, message),
        "pick": lambda: rewriting.pick(desk, voice, message),
        "settles": lambda: sufficiency.message_settles(desk, voice, message),
        "link": lambda: navigation.link(desk, voice, message),
    }
    if message.intent != OUT_OF_SCOPE:
        drafts += [makers[name]() for name in extras]
    state = states.single(voice, message)
    return Row(state, _named(drafts), language, split, desk.source, licence, (message.key,))


def pair_row(
    desk: Desk,
    licence: str,
    split: Split,
    message: Message,
    language: Language,
    dice: Dice,
    most_claims: int = 2,
) -> Row | None:
    """Two messages: do they ask for the same, how related are they, claims about one of them."""
    voice = Voice(language, dice)
    grade = draw(dice, _GRADES)
    other = rewriting.partner(desk, voice, message, grade)
    if other is None:
        return None
    first, second = dice.sample([message, other], 2)
    drafts: list[Draft | None] = [rewriting.same(desk, voice, first, second, grade)]
    drafts.append(relevance.pair(voice, grade))
    for place in dice.sample((0, 1), dice.number(1, most_claims)):
        about, against = (first, second) if place == 0 else (second, first)
        # Only what the other one asks for makes the false claims hard.
        rival = against.intent if grade != "same" and chance(dice, 0.7) else ""
        lead = POSITIONS[language][place]
        drafts.append(verification.claim(desk, voice, about, lead, rival))
    state = states.double(voice, first, second)
    keys = (first.key, second.key)
    return Row(state, _named(drafts), language, split, desk.source, licence, keys)


def notes_row(
    desk: Desk, licence: str, split: Split, message: Message, language: Language, dice: Dice
) -> Row:
    """Candidates and two notes: which of them settle the matter."""
    voice = Voice(language, dice)
    made = sufficiency.case(desk, voice, message, dice.pick(sufficiency.ANSWERS))
    drafts: list[Draft | None] = [sufficiency.which_notes(voice, made)]
    # Two notes settle four cases of five, and the first one two of five: asked in these shares,
    # both questions are as often true as false.
    if chance(dice, 0.25 if made.settled(0, 1) else 1.0):
        drafts.append(sufficiency.settled(desk, voice, made, (0, 1)))
    if chance(dice, 0.75 if made.settled(0) else 0.5):
        drafts.append(sufficiency.settled(desk, voice, made, (0,)))
    state = sufficiency.state(desk, voice, made)
    keys = (message.key,)
    return Row(state, _named(drafts), language, split, desk.source, licence, keys)


def browse_row(
    desk: Desk, licence: str, split: Split, message: Message, language: Language, dice: Dice
) -> Row:
    """A goal and an open page: is it the right one, how near is it, where to go."""
    voice = Voice(language, dice)
    grade = draw(dice, _PAGE_GRADES)
    names = [message.intent] if grade == "same" else desk.negatives(message, grade)
    if not names:
        grade, names = "same", [message.intent]
    opened = dice.pick(names)
    drafts: list[Draft | None] = [
        navigation.arrived(voice, grade),
        relevance.page(voice, grade),
        navigation.link(desk, voice, message, opened),
    ]
    state = navigation.state(desk, voice, message, opened)
    keys = (message.key,)
    return Row(state, _named(drafts), language, split, desk.source, licence, keys)


def form_row(split: Split, language: Language, dice: Dice, most: int = 4) -> Row | None:
    """A half-filled form; at most `most` of its questions. None if it belongs to another split."""
    voice = Voice(language, dice)
    made = forms.form(language, dice, complete=chance(dice, 0.4))
    if made.split != split:
        return None
    makers = [forms.enough, forms.answered, forms.fact]
    # Where nothing is missing, what is missing is asked less often, so that the answer "nothing"
    # is no better a guess than others.
    share = 0.4 if made.missing is None else 0.8
    makers += [make for make in (forms.missing, forms.next_question) if chance(dice, share)]
    chosen = dice.sample(makers, min(most, len(makers)))
    drafts: list[Draft | None] = [make(voice, made) for make in chosen]
    state = forms.state(voice, made)
    return Row(state, _named(drafts), language, split, BUILT, BUILT_LICENCE, (made.key,))


def _named(drafts: Iterable[Draft | None]) -> dict[str, Draft]:
    """Drafts by an id that says their family and kind; those of one kind are numbered."""
    found: dict[str, Draft] = {}
    for draft in drafts:
        if draft is not None:
            name = f"{draft.family}_{draft.kind}"
            number = 2
            while name in found:
                name = f"{draft.family}_{draft.kind}_{number}"
                number += 1
            found[name] = draft
    return found
