"""Labels of derived questions, reckoned again from what was asked: none is the wrong way round."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pytest

from readoff.engine.questions import Choice, Noul
from readoff.learn.data import (
    fixed_words,
    form_words,
    forms,
    navigation,
    relevance,
    rewriting,
    routing,
    sufficiency,
    verification,
    wording_en,
    wording_zh,
)
from readoff.learn.data.desk import Desk
from readoff.learn.data.draft import Draft
from readoff.learn.data.messages import Message
from readoff.learn.data.voice import Voice
from tests.learn.data.drawn import message, voices

ASKS = {"en": wording_en.ASKS, "zh": wording_zh.ASKS}


def is_asked(
    voice: Voice, draft: Draft, kind: str, leads: Sequence[str] = ("",), **slots: str
) -> bool:
    """Whether a question is worded as `kind`, after one of `leads`."""
    asked = str(draft.question.instructions)
    filled = [voice.fill(pattern, **slots) for pattern in ASKS[voice.language][kind]]
    return any(asked == lead + text for lead in leads for text in filled)


def told(desk: Desk, voice: Voice, draft: Draft, own: str) -> str:
    """The intent that a question speaks of, as "own", "other" or "none"; a wish that is part of
    another one is taken for the longer."""
    asked = str(draft.question.instructions).lower()
    words = {
        text.lower(): name
        for name, intent in desk.catalogue.intents.items()
        for text in (voice.wish(intent), voice.about(intent))
    }
    found = [text for text in words if text in asked]
    if not found:
        return "none"
    return "own" if words[max(found, key=len)] == own else "other"


def yes_of(draft: Draft, pairs: Sequence[tuple[str, str]]) -> bool:
    """Whether the answer is the first of the pair of words that the question offers."""
    assert isinstance(draft.question, Choice)
    [pair] = [pair for pair in pairs if set(pair) == set(draft.question.criteria)]
    return draft.answer == pair[0]


def verdict_of(voice: Voice, draft: Draft) -> bool:
    """True or false, of a noul or of a choice of yes and no."""
    if isinstance(draft.question, Noul):
        return draft.answer == "true"
    return yes_of(draft, fixed_words.YES_NO[voice.language])


def others(desk: Desk, given: Message) -> list[str]:
    return desk.negatives(given, "area") + desk.negatives(given, "other")


def test_claims(desk: Desk) -> None:
    seen = Counter[tuple[str, bool, bool]]()
    for number, voice in enumerate(voices(600)):
        given = message(desk, number)
        lead = "The first one: "
        made = verification.claim(desk, voice, given, lead)
        whose = told(desk, voice, made, given.intent)
        intents = desk.catalogue.intents.values()
        negated = any(
            is_asked(
                voice, made, "claim_false", (lead,), wish=voice.wish(one), about=voice.about(one)
            )
            for one in intents
        )
        assert whose != "none"
        assert verdict_of(voice, made) == ((whose == "own") != negated), made
        seen[whose, negated, isinstance(made.question, Noul)] += 1
    assert len(seen) == 8


def test_three_way(desk: Desk) -> None:
    seen = Counter[tuple[str, str]]()
    for number, voice in enumerate(voices(400)):
        given = message(desk, number)
        made = verification.three_way(desk, voice, given)
        whose = told(desk, voice, made, given.intent)
        asked = str(made.question.instructions)
        negated = any(
            voice.fill(pattern, wish=voice.wish(one), about=voice.about(one)) in asked
            for one in desk.catalogue.intents.values()
            for pattern in ASKS[voice.language]["claim_false"]
        )
        assert isinstance(made.question, Choice)
        [words] = [
            [name for name, _ in words]
            for words in fixed_words.VERDICTS[voice.language]
            if {name for name, _ in words} == set(made.question.criteria)
        ]
        open_or_not = 0 if (whose == "own") != negated else 2
        expected = 1 if whose == "none" else open_or_not
        assert words.index(made.answer) == expected, made
        seen[whose, words[expected]] += 1
    assert {whose for whose, _ in seen} == {"own", "other", "none"}


def test_areas(desk: Desk) -> None:
    for number, voice in enumerate(voices(200)):
        given = message(desk, number)
        made = routing.area(desk, voice, given)
        assert made is not None
        assert isinstance(made.question, Choice)
        texts = {name: {name, *words.values()} for name, words in desk.catalogue.areas.items()}
        own = desk.area(given.intent)
        assert made.answer in texts[own]
        assert made.human is desk.catalogue.published
        for also in desk.catalogue.intents[given.intent].also & texts.keys():
            assert not texts[also] & set(made.question.criteria)


def test_whether_a_message_settles_it(desk: Desk) -> None:
    seen = Counter[bool]()
    for number, voice in enumerate(voices(300)):
        given = message(desk, number)
        made = sufficiency.message_settles(desk, voice, given)
        asked = str(made.question.instructions)
        there = voice.wish(desk.catalogue.intents[given.intent]) in asked
        assert (made.answer == "true") == there
        seen[there] += 1
    assert min(seen[True], seen[False]) > 60


def test_whether_notes_settle_it(desk: Desk) -> None:
    seen = Counter[tuple[bool, bool, int]]()
    for number, voice in enumerate(voices(160)):
        answer = sufficiency.ANSWERS[number % 5]
        made = sufficiency.case(desk, voice, message(desk, number), answer)
        for places in ((0, 1), (0,)):
            # What the answer says of the notes, not what the code that makes the label finds.
            settled = answer != "neither" if len(places) == 2 else answer in ("first", "each")
            draft = sufficiency.settled(desk, voice, made, places)
            lists = [
                mark.join(voice.wish(desk.catalogue.intents[name]) for name in made.candidates)
                for mark in ("; ", " / ", ", or ", ";", "/", "、")
            ]
            leads = ("",) if len(places) == 2 else fixed_words.FIRST_ONLY[voice.language]
            reverse, plain = (
                any(is_asked(voice, draft, kind, leads, list=one) for one in lists)
                for kind in ("unsettled", "settles")
            )
            assert reverse != plain
            assert (draft.answer == "true") == (settled != reverse)
            seen[settled, reverse, len(places)] += 1
    assert len(seen) == 8


def test_pairs(desk: Desk) -> None:
    seen = Counter[tuple[bool, str]]()
    for number, voice in enumerate(voices(400)):
        given = message(desk, number)
        grade = ("same", "alike", "area", "other")[number % 4]
        other = rewriting.partner(desk, voice, given, grade)
        if other is None:
            continue
        made = rewriting.same(desk, voice, given, other, grade)
        same = given.intent == other.intent
        if isinstance(made.question, Noul):
            reverse = is_asked(voice, made, "different")
            assert reverse != is_asked(voice, made, "same")
            assert (made.answer == "true") == (same != reverse)
            seen[same, "reverse" if reverse else "plain"] += 1
        else:
            assert yes_of(made, fixed_words.PAIR_VERDICTS[voice.language]) == same
            seen[same, "choice"] += 1
    assert len(seen) == 6


@pytest.mark.parametrize("make", [relevance.pair, relevance.page])
def test_grades_of_pairs_and_pages(make: object) -> None:
    maker = relevance.pair if make is relevance.pair else relevance.page
    for voice in voices(200):
        for grade in relevance.GRADES:
            made = maker(voice, grade)
            top = len(made.question.options) - 1
            level = int(made.answer)
            if grade in ("other", "same"):
                assert level == (top if grade == "same" else 0)
            else:
                assert 0 < level < top


def test_topics_have_nothing_to_do_with_it_only_where_that_is_so(desk: Desk) -> None:
    seen = Counter[int]()
    for number, voice in enumerate(voices(400)):
        given = message(desk, number)
        made = relevance.topic(desk, voice, given)
        whose = told(desk, voice, made, given.intent)
        words = {
            text: name
            for name, intent in desk.catalogue.intents.items()
            for text in (voice.wish(intent), voice.about(intent))
        }
        reverse = any(is_asked(voice, made, "distance", topic=text) for text in words)
        top = len(made.question.options) - 1
        level = top - int(made.answer) if reverse else int(made.answer)
        assert (level == top) == (whose == "own")
        seen[level] += 1
    assert min(seen[0], seen[1]) > 20


def test_whether_the_open_page_is_the_right_one() -> None:
    seen = Counter[tuple[bool, bool]]()
    for voice in voices(100):
        for grade in relevance.GRADES:
            made = navigation.arrived(voice, grade)
            reverse = is_asked(voice, made, "onward")
            assert reverse != is_asked(voice, made, "arrived")
            assert (made.answer == "true") == ((grade == "same") != reverse)
            seen[grade == "same", reverse] += 1
    assert len(seen) == 4


def test_what_a_form_has_and_says() -> None:
    seen = Counter[tuple[str, bool, bool]]()
    for number, voice in enumerate(voices(300)):
        made = forms.form(voice.language, voice.dice, complete=number % 2 == 0)
        whole = all(slot.id in made.known for slot in made.needed)
        enough = forms.enough(voice, made)
        lacking = is_asked(voice, enough, "lacking")
        assert lacking != is_asked(voice, enough, "enough")
        assert (enough.answer == "true") == (whole != lacking)
        seen["enough", whole, lacking] += 1
        fact = forms.fact(voice, made)
        asked = str(fact.question.instructions).lower()
        [(kind, holds)] = {
            (kind, made.known.get(slot.id) == value)
            for kind in ("fact_true", "fact_false")
            for slot in forms.slots().values()
            for value in form_words.POOLS[slot.pool][voice.language]
            if value.lower() in asked
            and is_asked(voice, fact, kind, slot=slot.name[voice.language], answer=value)
        }
        negated = kind == "fact_false"
        assert (fact.answer == "true") == (holds != negated), fact
        seen["fact", holds, negated] += 1
    assert len(seen) == 8
