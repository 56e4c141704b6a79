"""Labels are single tokens in the place where they are read."""

from __future__ import annotations

import itertools
import string
from typing import Any

import pytest

from readoff.engine.errors import CardError, TemplateError
from readoff.engine.labels import Alphabet, LabelSet, LabelSpace, alphabets
from readoff.engine.questions import Choice, Noul, Question, Score
from readoff.engine.template import Template
from tests.tokenizers import QWEN, qwen, tiny

TINY = tiny(thinking=True)
CUE = "<|im_end|>\n<|im_start|>assistant\n"
PAIRS = {"qwen2.5": 552, "qwen3": 552, "qwen3.5": 562}


def choice(n: int) -> Choice:
    return Choice(criteria={f"option {i}": None for i in range(n)})


@pytest.mark.parametrize("n", [2, 26, 27, 53, 100, 255])
@pytest.mark.parametrize("family", QWEN)
def test_every_number_of_options_has_labels(family: str, n: int) -> None:
    tokenizer = qwen(family)
    cue = Template.load(tokenizer).cue
    labels = Alphabet(tokenizer, cue).for_question(choice(n))
    assert len(set(labels.ids)) == len(labels.ids) == n
    assert {len(text) for text in labels.texts} == {1 if n <= 26 else 2}
    assert list(labels.texts) == sorted(labels.texts)
    assert set(labels.ids).isdisjoint(tokenizer.added_tokens.values())
    before = tokenizer.encode_control(cue)
    for index, text in zip(labels.ids, labels.texts, strict=True):
        assert tokenizer.encode_control(cue + text) == (*before, index)
        assert tokenizer.decode([index]) == text


@pytest.mark.parametrize("family", QWEN)
def test_the_pairs_are_the_first_of_those_that_are_tokens(family: str) -> None:
    tokenizer = qwen(family)
    alphabet = Alphabet(tokenizer, CUE)
    pairs = ["".join(p) for p in itertools.product(string.ascii_uppercase, repeat=2)]
    single = [pair for pair in pairs if len(tokenizer.encode_text(pair)) == 1]
    assert len(single) == PAIRS[family]
    assert alphabet.for_question(choice(255)).texts == tuple(single[:255])
    assert alphabet.for_question(choice(30)).texts == tuple(single[:30])


@pytest.mark.parametrize("family", ["tiny", *QWEN])
def test_digits_for_levels_and_words_for_truth(family: str) -> None:
    alphabet = Alphabet(TINY if family == "tiny" else qwen(family), CUE)
    levels = Score(criteria=[f"level {i}" for i in range(10)])
    assert alphabet.for_question(levels).texts == tuple(string.digits)
    assert alphabet.for_question(Noul()).texts == ("True", "False")
    assert alphabet.for_question(choice(26)).texts == tuple(string.ascii_uppercase)


@pytest.mark.parametrize("cue", ["Answer:", "Answer: ", "\n "])
def test_a_cue_that_merges_with_its_label_is_refused(cue: str) -> None:
    """`:` and `A` become `:A`: the look-up of `A` alone would read the wrong logit."""
    tokenizer = qwen("qwen2.5")
    with pytest.raises(TemplateError, match="merges with its label 'A'"):
        Alphabet(tokenizer, cue).for_question(choice(2))


def test_an_empty_cue_is_refused() -> None:
    with pytest.raises(TemplateError, match="cue is empty"):
        Alphabet(TINY, "")


def test_an_alphabet_too_small_says_how_many_there_are() -> None:
    assert len(Alphabet(TINY, CUE).for_question(choice(200)).ids) == 200
    with pytest.raises(TemplateError, match=r"201 options need 201 labels .* have 200"):
        Alphabet(TINY, CUE).for_question(choice(201))


@pytest.mark.parametrize(
    ("space", "question", "label"),
    [
        (LabelSpace(noul=("True", "Untrue")), Noul(), "Untrue"),
        (LabelSpace(score=("zero", "five")), Score(criteria=["a", "b"]), "zero"),
    ],
)
def test_a_label_of_several_tokens_is_refused_where_it_has_a_meaning(
    space: LabelSpace, question: Question, label: str
) -> None:
    with pytest.raises(TemplateError, match=f"'{label}' is not a single token"):
        Alphabet(TINY, CUE, space).for_question(question)
    with pytest.raises(TemplateError, match="not a single token"):
        Alphabet(TINY, CUE, space).check()


def test_too_few_labels_for_the_levels() -> None:
    space = LabelSpace(score="0-4")
    with pytest.raises(TemplateError, match="6 levels need 6 labels, and there are 5"):
        Alphabet(TINY, CUE, space).for_question(Score(criteria=list("abcdef")))


def test_a_card_may_bring_its_own_labels() -> None:
    space = LabelSpace(choice=("b", "a", "AB", "AA"), score=("3", "1"), noul=("Y", "N"))
    alphabet = Alphabet(TINY, CUE, space)
    assert alphabet.for_question(choice(2)).texts == ("b", "a")
    assert alphabet.for_question(Score(criteria=["x", "y"])).texts == ("3", "1")
    assert alphabet.for_question(Noul()).texts == ("Y", "N")


def test_label_sets_are_kept() -> None:
    alphabet = Alphabet(TINY, CUE)
    assert alphabet.for_question(choice(5)) is alphabet.for_question(choice(5))
    assert alphabet.for_question(choice(5)) != alphabet.for_question(choice(6))


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("A-C", [("A", "B", "C")]),
        ("0-2|a-b", [("0", "1", "2", "a", "b")]),
        ("A-B|AA-BB", [("A", "B"), ("AA", "AB", "BA", "BB")]),
        (("AA", "B", "A"), [("B", "A"), ("AA",)]),
    ],
)
def test_alphabets(spec: Any, expected: list[tuple[str, ...]]) -> None:
    assert list(alphabets(spec)) == expected


@pytest.mark.parametrize(
    "spec", ["", "A", "Z-A", "A-", "A-ZZ", "A-Z|", "A-C|B-D", (), ("",), ("A", "A")]
)
def test_label_ranges_that_cannot_be_read(spec: Any) -> None:
    with pytest.raises(CardError):
        LabelSpace(choice=spec)


@pytest.mark.parametrize(
    "entry",
    [
        {"noul": "True"},
        {"noul": ["True"]},
        {"noul": ["True", "True"]},
        {"noul": ["True", ""]},
        {"choice": 26},
        {"score": ["0", 1]},
        {"rank": "A-Z"},
    ],
)
def test_label_entries_that_cannot_be_read(entry: Any) -> None:
    with pytest.raises(CardError):
        LabelSpace.parse(entry)


@pytest.mark.parametrize(
    "space", [LabelSpace(), LabelSpace(choice=("a", "b"), score="1-5", noul=("Yes", "No"))]
)
def test_label_spaces_survive_the_card(space: LabelSpace) -> None:
    assert LabelSpace.parse(space.to_json()) == space


def test_the_defaults_are_those_of_the_card() -> None:
    assert LabelSpace().to_json() == {
        "choice": "A-Z|AA-ZZ",
        "score": "0-9",
        "noul": ["True", "False"],
    }
    assert LabelSet((1,), ("A",)) == LabelSet((1,), ("A",))
