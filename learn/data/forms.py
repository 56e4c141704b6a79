"""Forms that are half filled: which fact is missing, what to ask next, what was asked.

Everything here is built from the lists in `form_words`; the answers are right by construction.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import sha256

from readoff.bench.records import Language
from readoff.bench.workloads.lexicon import Dice
from readoff.engine.text import Text
from readoff.learn.data import fixed_words, form_words, verification
from readoff.learn.data.draft import Draft, chance, noul, permuted, verdict
from readoff.learn.data.messages import Split, normalised
from readoff.learn.data.voice import Voice


@dataclass(frozen=True)
class Slot:
    """One entry of a form. `name` and `question` by language."""

    id: str
    pool: str
    name: Mapping[Language, str]
    question: Mapping[Language, str]


@dataclass(frozen=True)
class Form:
    """What a task needs, and the values that are known, some of which it may not need."""

    task: str
    needed: tuple[Slot, ...]
    known: Mapping[str, str]
    slots: tuple[Slot, ...]

    @property
    def key(self) -> str:
        """What the form says, however it is laid out."""
        return normalised(f"{self.task} {sorted(self.known.items())}")

    @property
    def split(self) -> Split:
        """The split that forms of these words belong to: 7 of 10 train, 1 valid, 2 test."""
        place = int(sha256(self.key.encode()).hexdigest(), 16) % 10
        return "test" if place < 2 else "valid" if place < 3 else "train"

    @property
    def missing(self) -> Slot | None:
        """The one needed slot that isn't known, if there is one."""
        return next((slot for slot in self.needed if slot.id not in self.known), None)


@cache
def slots() -> Mapping[str, Slot]:
    """All slots by id."""
    found = {}
    for line in form_words.SLOTS.strip().splitlines():
        name, pool, en, asked_en, zh, asked_zh = line.split(" | ")
        found[name] = Slot(name, pool, {"en": en, "zh": zh}, {"en": asked_en, "zh": asked_zh})
    return found


@cache
def tasks() -> Sequence[tuple[Mapping[Language, str], tuple[Slot, ...]]]:
    """All tasks: their names, and the slots that they need."""
    found = []
    for line in form_words.TASKS.strip().splitlines():
        en, zh, needs = line.split(" | ")
        names: Mapping[Language, str] = {"en": en, "zh": zh}
        found.append((names, tuple(slots()[name] for name in needs.split())))
    return found


def form(language: Language, dice: Dice, *, complete: bool) -> Form:
    """A form with all that it needs, or with one entry missing; sometimes with one too many."""
    names, needed = dice.pick(tasks())
    missing = None if complete else dice.pick(needed)
    extra = [slot for slot in slots().values() if slot not in needed]
    others = dice.sample(extra, 1) if chance(dice, 0.35) else []
    entries = [slot for slot in [*needed, *others] if slot is not missing]
    left: dict[str, list[str]] = {}
    known: dict[str, str] = {}
    for slot in dice.sample(entries, len(entries)):
        if slot.pool not in left:
            values = form_words.POOLS[slot.pool][language]
            left[slot.pool] = dice.sample(values, len(values))
        known[slot.id] = left[slot.pool].pop()
    return Form(names[language], needed, known, tuple(others))


def state(voice: Voice, made: Form) -> Text:
    """A form as an object, as an array of lines, or as plain text."""
    language = voice.language
    entries = {slots()[name].name[language]: value for name, value in made.known.items()}
    needed = [slot.name[language] for slot in made.needed]
    words = ("task", "needed", "known") if language == "en" else ("任务", "需要", "已知")
    shape = voice.dice.number(1, 4)
    if shape == 1:
        return {words[0]: made.task, words[1]: list(needed), words[2]: dict(entries)}
    mark = ": " if language == "en" else ":"
    lines = [f"{name}{mark}{value}" for name, value in entries.items()]
    listed = (", " if language == "en" else "、").join(needed)
    if shape == 2:
        return [f"{words[0]}{mark}{made.task}", f"{words[1]}{mark}{listed}", *lines]
    if shape == 3:
        return "\n".join([made.task, f"{words[1]}{mark}{listed}", *lines])
    end = ". " if language == "en" else "。"
    return end.join([f"{made.task} ({words[1]}{mark}{listed})", *lines]) + end.strip()


def missing(voice: Voice, made: Form) -> Draft:
    """A choice of the fact that is missing, or of nothing."""
    language = voice.language
    options = {slot.name[language]: None for slot in made.needed}
    nothing = voice.pick(fixed_words.NOTHING)
    options[nothing] = None
    for slot in made.slots:
        options[slot.name[language]] = None
    right = made.missing.name[language] if made.missing else nothing
    question = permuted(voice.ask("missing"), dict(options), voice.dice)
    return Draft("sufficiency", "missing", question, {right: 1.0})


def enough(voice: Voice, made: Form) -> Draft:
    """Whether all that is needed is known."""
    reverse = chance(voice.dice, 0.5)
    asked = voice.ask("lacking" if reverse else "enough")
    share = float((made.missing is None) != reverse)
    return Draft("sufficiency", "enough", noul(asked, voice.sides(), voice.dice), verdict(share))


def next_question(voice: Voice, made: Form) -> Draft:
    """A choice of the question to ask next, or of asking none."""
    language = voice.language
    options = {slot.question[language]: None for slot in made.needed}
    right = made.missing.question[language] if made.missing else ""
    if made.missing is None or chance(voice.dice, 0.8):
        go_ahead = voice.pick(fixed_words.GO_AHEAD)
        options[go_ahead] = None
        right = right or go_ahead
    question = permuted(voice.ask("next_question"), dict(options), voice.dice)
    return Draft("navigation", "next_question", question, {right: 1.0})


def answered(voice: Voice, made: Form) -> Draft:
    """A choice of the question that one of the known values answers."""
    dice, language = voice.dice, voice.language
    right = slots()[dice.pick(list(made.known))]
    # Questions that could have an answer of the same kind must be among the options.
    others = [slot for slot in made.needed if slot is not right]
    rest = [slot for slot in slots().values() if slot not in (*others, right)]
    same = [slot for slot in rest if slot.pool == right.pool and slot.id not in made.known]
    others += dice.sample(same, min(1, len(same)))
    chosen = [right, *dice.sample(others, min(len(others), dice.number(1, 5)))]
    options = {slot.question[language]: None for slot in chosen}
    asked = voice.ask("answered", answer=made.known[right.id])
    question = permuted(asked, dict(options), dice)
    return Draft("navigation", "answered", question, {right.question[language]: 1.0})


def fact(voice: Voice, made: Form) -> Draft:
    """Whether one entry has a value: its own, or one that belongs to another entry."""
    dice, language = voice.dice, voice.language
    slot = slots()[dice.pick(list(made.known))]
    value = made.known[slot.id]
    holds = chance(dice, 0.5)
    if not holds:
        mates = [
            known
            for name, known in made.known.items()
            if slots()[name].pool == slot.pool and known != value
        ]
        others = [other for other in form_words.POOLS[slot.pool][language] if other != value]
        value = dice.pick(mates if mates and chance(dice, 0.7) else others)
    return verification.fact(voice, slot.name[language], value, holds)
