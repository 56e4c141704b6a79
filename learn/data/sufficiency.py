"""Sufficiency: does what is known settle which of several intents it is?

What notes say is a set of the candidates that they leave, so that answers follow by intersection.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from readoff.engine.text import Text
from readoff.learn.data import fixed_words
from readoff.learn.data.desk import Desk
from readoff.learn.data.draft import Draft, chance, noul, permuted, verdict
from readoff.learn.data.messages import Message
from readoff.learn.data.voice import Voice

ANSWERS = ("first", "second", "each", "both", "neither")
"""Which of two notes settle the matter."""

_SURE = 0.97
_QUOTED = 160  # characters of a message that a note quotes
_TRIES = 200


@dataclass(frozen=True)
class Note:
    """A note, and which candidates it leaves."""

    text: str
    leaves: frozenset[str]


@dataclass(frozen=True)
class Case:
    """Candidates, of which `truth` is the right one, and notes that are all true of it."""

    truth: str
    candidates: tuple[str, ...]
    notes: tuple[Note, ...]

    def settled(self, *places: int) -> bool:
        """Whether the notes at these places leave one candidate only."""
        left = frozenset(self.candidates)
        for place in places:
            left &= self.notes[place].leaves
        return len(left) == 1

    @property
    def answer(self) -> str:
        """Which of the two notes settle the case, one of ANSWERS."""
        first, second = self.settled(0), self.settled(1)
        if first and second:
            return "each"
        if first or second:
            return "first" if first else "second"
        return "both" if self.settled(0, 1) else "neither"


def case(desk: Desk, voice: Voice, message: Message, answer: str) -> Case:
    """A case with two notes to which `answer` is the right one; a note may quote `message`."""
    for _ in range(_TRIES):
        made = _case(desk, voice, message)
        if made.answer == answer and made.notes[0].text != made.notes[1].text:
            return made
    raise AssertionError(f"no case with the answer {answer} after {_TRIES} draws")


def state(desk: Desk, voice: Voice, made: Case) -> Text:
    """The candidates and the notes of a case."""
    wishes = [voice.wish(desk.catalogue.intents[name]) for name in made.candidates]
    first, second = (note.text for note in made.notes)
    if voice.language == "zh":
        if chance(voice.dice, 0.5):
            return {"候选项": list(wishes), "说明一": first, "说明二": second}
        return [f"候选项:{';'.join(wishes)}", f"1. {first}", f"2. {second}"]
    shape = voice.dice.number(1, 3)
    if shape == 1:
        return {"candidates": list(wishes), "note 1": first, "note 2": second}
    if shape == 2:
        return {"what the customer may want": list(wishes), "notes": [first, second]}
    return [f"Candidates: {'; '.join(wishes)}", f"First note. {first}", f"Second note. {second}"]


def which_notes(voice: Voice, made: Case) -> Draft:
    """A choice of the notes that settle a case."""
    texts = voice.dice.pick(fixed_words.SUFFICE[voice.language])
    right = texts[ANSWERS.index(made.answer)]
    question = permuted(voice.ask("notes"), dict.fromkeys(texts), voice.dice)
    return Draft("sufficiency", "notes", question, {right: 1.0})


def settled(desk: Desk, voice: Voice, made: Case, places: Sequence[int]) -> Draft:
    """Whether notes settle a case; with one place only the first note may be used."""
    dice = voice.dice
    reverse = chance(dice, 0.5)
    wishes = [voice.wish(desk.catalogue.intents[name]) for name in made.candidates]
    asked = voice.ask("unsettled" if reverse else "settles", list=voice.listed(wishes))
    lead = "" if len(places) == 2 else voice.pick(fixed_words.FIRST_ONLY)
    share = float(made.settled(*places) != reverse)
    return Draft("sufficiency", "settled", noul(lead + asked, voice.sides(), dice), verdict(share))


def message_settles(desk: Desk, voice: Voice, message: Message) -> Draft:
    """Whether a message shows which of some intents is meant: true if its own is among them."""
    dice = voice.dice
    there = chance(dice, 0.5)
    names = [message.intent] if there else []
    for _ in range(dice.number(2, 4) - there):
        name = desk.negative(message, dice, alike=0.5, area=0.3)
        if name not in names:
            names.append(name)
    names = dice.sample(names, len(names))
    if len(names) < 2:
        names += [n for n in desk.negatives(message, "other") if n not in names][:1]
    wishes = [voice.wish(desk.catalogue.intents[name]) for name in names]
    asked = voice.ask("settles", list=voice.listed(wishes))
    share = _SURE if there else 1.0 - _SURE
    return Draft("sufficiency", "settles", noul(asked, voice.sides(), dice), verdict(share))


def _case(desk: Desk, voice: Voice, message: Message) -> Case:
    dice = voice.dice
    truth = message.intent
    names = [truth]
    for _ in range(dice.number(1, 3)):
        name = desk.negative(message, dice, alike=0.4, area=0.3)
        if name not in names:
            names.append(name)
    if len(names) < 2:
        names.append(desk.negative(message, dice, alike=0.0, area=0.0))
    candidates = dice.sample(names, len(names))
    notes = (_note(desk, voice, message, candidates), _note(desk, voice, message, candidates))
    return Case(truth, tuple(candidates), notes)


def _note(desk: Desk, voice: Voice, message: Message, candidates: Sequence[str]) -> Note:
    """A true note of a drawn kind."""
    dice, intents = voice.dice, desk.catalogue.intents
    wrong = [name for name in candidates if name != message.intent]
    everything = frozenset(candidates)
    kinds = ["quote", "not", "not", "either", "area", "area", "idle"]
    kind = dice.pick(kinds)
    if kind == "quote" and len(message.text) > _QUOTED:
        kind = "area"
    pattern = dice.pick(fixed_words.NOTES[voice.language][kind])
    if kind == "quote":
        return Note(voice.fill(pattern, message=message.text), frozenset({message.intent}))
    if kind == "not":
        name = dice.pick(wrong)
        return Note(voice.fill(pattern, wish=voice.wish(intents[name])), everything - {name})
    if kind == "either":
        name = dice.pick(wrong)
        first, second = dice.sample([message.intent, name], 2)
        wishes = [voice.wish(intents[one]) for one in (first, second)]
        return Note(
            voice.fill(pattern, wish=wishes[0], other=wishes[1]), frozenset({first, second})
        )
    if kind == "area":
        area = desk.area(message.intent)
        left = frozenset(
            name for name in candidates if area in {desk.area(name), *intents[name].also}
        )
        words = desk.catalogue.areas[area][voice.language]
        return Note(voice.fill(pattern, area=words), left)
    return Note(voice.fill(pattern), everything)
