"""The questions of each family: the right answer is right, and isn't given away."""

from __future__ import annotations

import math
from collections import Counter

import pytest

from readoff.bench.workloads.lexicon import Dice
from readoff.engine.questions import Choice, Noul, Score
from readoff.engine.text import render_text
from readoff.learn.data import (
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
from readoff.learn.data.desk import DOUBTFUL, Desk
from readoff.learn.data.draft import Draft, chance, draw, permuted, verdict
from readoff.learn.data.errors import DataError
from readoff.learn.data.messages import OUT_OF_SCOPE
from tests.learn.data.drawn import message, voices


def names_of(desk: Desk, intent: str) -> set[str]:
    """All texts that may stand for an intent."""
    found = desk.catalogue.intents[intent]
    words = {found.id, found.id.replace("_", " "), *found.wish.values(), *found.about.values()}
    return words | {word[0].upper() + word[1:] for word in words}


@pytest.mark.parametrize("language", ["en", "zh"])
def test_there_are_many_ways_of_asking(language: str) -> None:
    asks = {"en": wording_en.ASKS, "zh": wording_zh.ASKS}[language]
    least = {"en": 12, "zh": 6}[language]
    # Reversed forms come on top of the plain ones of the same question.
    plain = {"distance": "topic", "unsettled": "settles", "lacking": "enough"}
    plain |= {"onward": "arrived", "fact_false": "fact_true"}
    for kind, patterns in asks.items():
        assert len(set(patterns)) == len(patterns) >= (6 if kind in plain else least), kind
    assert wording_en.ASKS.keys() == wording_zh.ASKS.keys()


def test_routing_answers_with_the_message_s_intent(desk: Desk) -> None:
    outcomes = Counter[str]()
    for number, voice in enumerate(voices(200)):
        given = message(desk, number)
        made = routing.routing(desk, voice, given, 2 + number % 14)
        assert isinstance(made.question, Choice)
        assert len(made.question.criteria) == 2 + number % 14 == int(made.kind)
        about = made.question.criteria[made.answer]
        if {made.answer, about} & names_of(desk, given.intent):
            outcomes["there"] += 1
            assert made.target == {made.answer: 1.0}
            assert made.human
        else:
            outcomes["left out"] += 1
            assert not made.human
            for name, text in made.question.criteria.items():
                assert not {name, text} & names_of(desk, given.intent)
    assert outcomes["there"] > 150
    assert outcomes["left out"] > 1


def test_out_of_scope_is_none_of_the_options(desk: Desk) -> None:
    outside = [m for m in desk.messages if m.intent == OUT_OF_SCOPE]
    for number, voice in enumerate(voices(40)):
        made = routing.routing(desk, voice, outside[number % len(outside)], 5)
        names = set().union(*(names_of(desk, intent) for intent in desk.catalogue.intents))
        assert made.answer not in names
        assert made.target[made.answer] == pytest.approx(0.95)
        assert len(made.target) == 5


def test_permuting_keeps_the_right_answer_and_reaches_every_place() -> None:
    places = Counter[int]()
    for number in range(400):
        question = permuted("which", {"a": None, "b": "x", "c": None, "d": None}, Dice(number))
        assert question.criteria["b"] == "x"
        assert set(question.criteria) == set("abcd")
        places[list(question.criteria).index("b")] += 1
    assert min(places[place] for place in range(4)) > 60


def test_claims_are_true_and_false_whichever_way_they_are_put(desk: Desk) -> None:
    answers = Counter[tuple[bool, bool]]()
    negated = {*wording_en.ASKS["claim_false"], *wording_zh.ASKS["claim_false"]}
    for number, voice in enumerate(voices(400)):
        given = message(desk, number)
        made = verification.claim(desk, voice, given)
        if not isinstance(made.question, Noul):
            continue
        asked = str(made.question.instructions)
        intent = desk.catalogue.intents[given.intent]
        slots = {"wish": voice.wish(intent), "about": voice.about(intent)}
        own = any(word in asked for word in slots.values())
        reverse = any(voice.fill(pattern, **slots) == asked for pattern in negated)
        if own:
            assert made.answer == ("false" if reverse else "true")
        answers[own, made.answer == "true"] += 1
    assert min(answers.values()) > 40
    assert len(answers) == 4


def test_derived_negatives_avoid_what_the_second_opinion_finds_likely(desk: Desk) -> None:
    for number in range(60):
        given = message(desk, number)
        for how in ("alike", "area", "other"):
            for name in desk.negatives(given, how):
                assert name != given.intent
                assert desk.posterior.of(given, name) < DOUBTFUL
                assert (desk.area(name) == desk.area(given.intent)) == (how != "other")
                assert name not in desk.catalogue.intents[given.intent].kin


def test_three_way_has_all_verdicts_equally_often(desk: Desk) -> None:
    places = Counter[int]()
    for number, voice in enumerate(voices(300)):
        made = verification.three_way(desk, voice, message(desk, number))
        places[list(made.target.values()).index(max(made.target.values()))] += 1
    assert min(places.values()) > 70
    assert len(places) == 3


@pytest.mark.parametrize("levels", [2, 3, 4, 5])
def test_relevance_grows_with_the_grade(levels: int) -> None:
    means = []
    for grade in ("other", "area", "alike", "same"):
        if levels == 2 and grade in ("area", "alike"):
            continue
        shares = relevance._TARGETS[levels][grade]
        assert len(shares) == levels
        assert math.fsum(shares) == pytest.approx(1.0)
        means.append(sum(level * share for level, share in enumerate(shares)))
    assert means == sorted(means)


def test_how_far_off_is_relevance_backwards(desk: Desk) -> None:
    seen = set()
    for number, voice in enumerate(voices(150)):
        given = message(desk, number)
        made = relevance.topic(desk, voice, given)
        assert isinstance(made.question, Score)
        intent = desk.catalogue.intents[given.intent]
        asked = str(made.question.instructions)
        exact = asked if voice.wish(intent) in asked or voice.about(intent) in asked else ""
        patterns = {"en": wording_en.ASKS, "zh": wording_zh.ASKS}[voice.language]["distance"]
        slots = (voice.wish(intent), voice.about(intent))
        reverse = any(voice.fill(p, topic=slot) == asked for p in patterns for slot in slots)
        if exact:
            best = 0 if reverse else len(made.question.criteria) - 1
            assert made.answer == str(best)
            seen.add(reverse)
    assert seen == {True, False}


def test_pairs_that_ask_for_the_same_have_one_intent(desk: Desk) -> None:
    answers = Counter[str]()
    for number, voice in enumerate(voices(200)):
        given = message(desk, number)
        grade = ("same", "alike", "area", "other")[number % 4]
        other = rewriting.partner(desk, voice, given, grade)
        if other is None:
            continue
        assert other.key != given.key
        assert (other.intent == given.intent) == (grade == "same")
        made = rewriting.same(desk, voice, given, other, grade)
        if isinstance(made.question, Noul):
            answers[made.answer] += 1
    assert min(answers["true"], answers["false"]) > 50


def test_the_picked_message_has_the_same_intent(desk: Desk) -> None:
    intents = {m.text: m.intent for m in desk.messages}
    for number, voice in enumerate(voices(80)):
        given = message(desk, number)
        made = rewriting.pick(desk, voice, given)
        assert made is not None
        assert isinstance(made.question, Choice)
        for option in made.question.criteria:
            assert (intents[option] == given.intent) == (option == made.answer)


@pytest.mark.parametrize("answer", sufficiency.ANSWERS)
def test_notes_leave_what_the_answer_says(desk: Desk, answer: str) -> None:
    for number, voice in enumerate(voices(24)):
        given = message(desk, number)
        made = sufficiency.case(desk, voice, given, answer)
        assert made.truth == given.intent
        assert made.truth in made.candidates
        first, second = (note.leaves & set(made.candidates) for note in made.notes)
        assert made.truth in first & second
        expected = {
            "first": len(first) == 1 < len(second),
            "second": len(second) == 1 < len(first),
            "each": len(first) == len(second) == 1,
            "both": len(first & second) == 1 < min(len(first), len(second)),
            "neither": len(first & second) > 1,
        }
        assert expected[answer]
        text = render_text(sufficiency.state(desk, voice, made))
        for note in made.notes:
            assert note.text in text
        both = sufficiency.settled(desk, voice, made, (0, 1))
        assert both.target in ({"true": 1.0}, {"false": 1.0})


def test_a_form_lacks_what_it_is_said_to_lack() -> None:
    for number, voice in enumerate(voices(120)):
        made = forms.form(voice.language, voice.dice, complete=number % 2 == 0)
        lacking = [slot for slot in made.needed if slot.id not in made.known]
        assert len(lacking) == number % 2
        text = render_text(forms.state(voice, made))
        for value in made.known.values():
            assert value in text
        missing = forms.missing(voice, made)
        asked = forms.next_question(voice, made)
        if lacking:
            assert missing.answer == lacking[0].name[voice.language]
            assert asked.answer == lacking[0].question[voice.language]
        else:
            assert missing.answer not in {s.name[voice.language] for s in forms.slots().values()}


def test_a_value_belongs_to_one_entry_of_a_form() -> None:
    for voice in voices(120):
        made = forms.form(voice.language, voice.dice, complete=True)
        assert len(set(made.known.values())) == len(made.known)
        answered = forms.answered(voice, made)
        slot = next(
            s
            for s in forms.slots().values()
            if s.question[voice.language] == answered.answer and s.id in made.known
        )
        assert made.known[slot.id] in str(answered.question.instructions)


def test_links_lead_to_the_page_or_its_heading_or_stay(desk: Desk) -> None:
    kinds = Counter[str]()
    for number, voice in enumerate(voices(200)):
        given = message(desk, number)
        opened = given.intent if number % 3 == 0 else ""
        made = navigation.link(desk, voice, given, opened)
        area = desk.catalogue.areas[desk.area(given.intent)]
        names = {n.lower() for n in names_of(desk, given.intent)}
        slug = f"/{desk.area(given.intent)}/{given.intent.replace('_', '-')}"
        if opened:
            kinds["stay"] += 1
            assert made.answer.lower() not in names | {slug}
        elif made.answer.lower() in names | {slug}:
            kinds["page"] += 1
        else:
            kinds["heading"] += 1
            heading = made.answer.lower()
            assert heading.startswith(
                (*(a.lower() for a in area.values()), f"/{desk.area(given.intent)}/")
            )
    assert min(kinds.values()) > 20


def test_a_label_outside_the_options_is_an_error() -> None:
    question = Choice(criteria={"a": None, "b": None})
    with pytest.raises(DataError, match='"c"'):
        Draft("routing", "2", question, {"c": 1.0})
    with pytest.raises(DataError, match=r"sums to 0\.9"):
        Draft("routing", "2", question, {"a": 0.5, "b": 0.4})


def test_draws_keep_to_their_shares() -> None:
    dice = Dice("shares")
    found = Counter(draw(dice, {"a": 3.0, "b": 1.0}) for _ in range(2000))
    assert 0.70 < found["a"] / 2000 < 0.80
    assert 0.15 < sum(chance(dice, 0.2) for _ in range(2000)) / 2000 < 0.25
    assert verdict(1.0) == {"true": 1.0}
