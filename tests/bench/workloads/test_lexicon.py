"""Words and patterns: complete in both languages, filled without repeats."""

from __future__ import annotations

from dataclasses import fields

import pytest

from readoff.bench.workloads.chinese import CHINESE
from readoff.bench.workloads.english import ENGLISH
from readoff.bench.workloads.lexicon import FAMILIES, Dice, Domain, Lexicon, Writer

BOTH = pytest.mark.parametrize("lexicon", [ENGLISH, CHINESE], ids=["en", "zh"])


@BOTH
def test_every_pattern_can_be_filled_in_every_domain(lexicon: Lexicon) -> None:
    patterns = [
        *lexicon.messages,
        *lexicon.replies,
        *lexicon.passages,
        *lexicon.steps,
        *lexicon.titles,
    ]
    for forms in lexicon.forms.values():
        patterns += [*forms.choice, *forms.options, *forms.score, *forms.noul]
    for domain in lexicon.domains:
        writer = Writer(lexicon, domain, Dice(0))
        for pattern in patterns:
            assert "{" not in writer.fill(pattern)


@BOTH
def test_a_question_has_levels_for_each_way_to_put_it(lexicon: Lexicon) -> None:
    assert set(lexicon.forms) == set(FAMILIES)
    for forms in lexicon.forms.values():
        assert len(forms.score) == len(forms.levels)


def test_both_languages_have_the_same_shape() -> None:
    assert ENGLISH.keys.keys() == CHINESE.keys.keys()
    assert len(set(CHINESE.keys.values())) == len(CHINESE.keys)
    for domain in (*ENGLISH.domains, *CHINESE.domains):
        for field in fields(Domain):
            words = getattr(domain, field.name)
            assert len(words) == len(set(words)) >= 2, field.name
        assert min(len(domain.teams), len(domain.pages)) >= 6  # a choice has up to six options


def test_words_do_not_repeat_within_a_pattern() -> None:
    writer = Writer(ENGLISH, ENGLISH.domains[0], Dice(1))
    for _ in range(200):
        first, second = writer.fill("{thing}|{thing}").split("|")
        assert first != second


def test_english_articles_and_capitals_fit() -> None:
    writer = Writer(ENGLISH, ENGLISH.domains[0], Dice(2))
    found = {writer.fill("{Thing}: a {thing}") for _ in range(200)}
    assert any(": an invoice" in text for text in found)
    assert any(": a discount" in text or ": a credit note" in text for text in found)
    assert not any(": a invoice" in text or ": an credit" in text for text in found)
    assert all(text[0].isupper() for text in found)


def test_a_deck_is_gone_through_before_it_comes_again() -> None:
    writer = Writer(ENGLISH, ENGLISH.domains[0], Dice(3))
    source = writer.sentences(("a", "b", "c"), ("x", "y"), each=2)
    found = [next(source) for _ in range(12)]
    assert [text in "abc" for text in found] == [True, True, False, False] * 3
    assert sorted(text for text in found if text in "abc")[::2] == ["a", "b", "c"]


def test_draws_stay_in_their_ranges_and_reach_both_ends() -> None:
    dice = Dice("range")
    found = [dice.number(2, 5) for _ in range(500)]
    assert set(found) == {2, 3, 4, 5}
    assert sorted(dice.sample("abcd", 4)) == list("abcd")
    assert len({tuple(dice.sample("abcd", 4)) for _ in range(500)}) == 24
