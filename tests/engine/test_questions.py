"""Questions are checked when they are made."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import pytest

from readoff.engine.errors import QuestionError
from readoff.engine.questions import Choice, Noul, Question, Score, check_questions

TEXTS = ["plain", {"task": "x", "include": ["a", 1, None]}, ["a", {"b": True}]]


@pytest.mark.parametrize("instructions", [None, "", *TEXTS])
def test_instructions_may_be_text_object_array_or_nothing(instructions: Any) -> None:
    for question in (
        Choice(instructions=instructions, criteria={"a": None, "b": None}),
        Score(instructions=instructions, criteria=["a", "b"]),
        Noul(instructions=instructions),
    ):
        assert question.instructions is instructions


@pytest.mark.parametrize("text", TEXTS)
def test_descriptions_may_be_text_object_or_array(text: Any) -> None:
    assert Choice(criteria={"a": text, "b": None}).options == ("a", "b")
    assert Score(criteria=[text, "other"]).options == ("0", "1")
    assert Noul(criteria={"true": text}).options == ("true", "false")


@pytest.mark.parametrize("n", [2, 26, 27, 255])
def test_choices_of_2_to_255_options(n: int) -> None:
    names = [f"option {i}" for i in range(n)]
    assert Choice(criteria=dict.fromkeys(names)).options == tuple(names)


@pytest.mark.parametrize("n", [0, 1, 256])
def test_choices_of_other_sizes_are_refused(n: int) -> None:
    with pytest.raises(QuestionError, match=f"2 to 255 options, and this one has {n}"):
        Choice(criteria={f"option {i}": None for i in range(n)})


@pytest.mark.parametrize("n", [2, 10])
def test_scores_of_2_to_10_levels(n: int) -> None:
    score = Score(criteria=[f"level {i}" for i in range(n)])
    assert score.options == tuple(map(str, range(n)))


@pytest.mark.parametrize("n", [0, 1, 11])
def test_scores_of_other_sizes_are_refused(n: int) -> None:
    with pytest.raises(QuestionError, match=f"2 to 10 levels, and this one has {n}"):
        Score(criteria=[f"level {i}" for i in range(n)])


@pytest.mark.parametrize("criteria", [None, {}, {"true": None}, {"false": "no"}, {"true": ["y"]}])
def test_noul_criteria_may_be_missing_null_or_one_sided(criteria: Any) -> None:
    assert Noul(criteria=criteria).criteria == criteria


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Choice(criteria=["a", "b"]), "must be an object"),  # type: ignore[arg-type]
        (lambda: Choice(criteria=None), "not null"),  # type: ignore[arg-type]
        (lambda: Choice(criteria={"": None, "a": None}), "option name '' is empty"),
        (lambda: Choice(criteria={" \n": None, "a": None}), "is empty"),
        (lambda: Choice(criteria={1: None, "a": None}), "option name 1"),  # type: ignore[dict-item]
        (lambda: Choice(criteria={"\ud83d": None, "a": None}), "surrogate"),
        (lambda: Choice(criteria={"a": 1, "b": None}), "'a' must be a string"),  # type: ignore[dict-item]
        (lambda: Choice(criteria={"a": {"x": float("nan")}, "b": None}), "nan"),
        (lambda: Choice(instructions=7, criteria={"a": None, "b": None}), "instructions must be"),  # type: ignore[arg-type]
        (lambda: Score(criteria={"0": "a", "1": "b"}), "must be an array"),  # type: ignore[arg-type]
        (lambda: Score(criteria="ab"), "must be an array"),
        (lambda: Score(criteria=["a", None]), "level 1 must be a string"),  # type: ignore[list-item]
        (lambda: Score(criteria=["a", ""]), "level 1 is empty"),
        (lambda: Score(criteria=["a", "b", "a"]), "Levels 0 and 2 have the same"),
        (lambda: Score(criteria=[{"l": 1}, {"l": 1}]), "Levels 0 and 1 have the same"),
        (lambda: Noul(criteria={"yes": "a"}), "'yes' is neither"),
        (lambda: Noul(criteria=["a"]), "must be an object"),  # type: ignore[arg-type]
        (lambda: Noul(criteria={"true": 1}), "'true' must be a string"),  # type: ignore[dict-item]
    ],
)
def test_what_is_wrong_is_named(make: Any, message: str) -> None:
    with pytest.raises(QuestionError, match=message):
        make()


def test_questions_are_frozen_and_keep_their_own_criteria() -> None:
    criteria: dict[str, Any] = {"a": None, "b": None}
    choice = Choice(criteria=criteria)
    criteria.clear()
    assert choice.options == ("a", "b")
    with pytest.raises(dataclasses.FrozenInstanceError):
        choice.criteria = {}  # type: ignore[misc]
    with pytest.raises(TypeError):
        Noul("instructions by position")  # type: ignore[call-arg]


def test_equal_questions_are_equal() -> None:
    assert Score(criteria=["a", "b"]) == Score(criteria=("a", "b"))
    assert Noul(instructions="a") != Noul(instructions="b")


@pytest.mark.parametrize(
    ("questions", "message"),
    [
        ({}, "at least one"),
        ([Noul()], "map ids to questions"),
        ({"": Noul()}, "non-empty"),
        ({1: Noul()}, "non-empty"),
        ({"a": "Is it?"}, "must be a Choice, Score or Noul, not str"),
    ],
)
def test_bad_collections_of_questions(questions: Any, message: str) -> None:
    with pytest.raises(QuestionError, match=message):
        check_questions(questions)


def test_any_non_empty_id_is_legal() -> None:
    questions: dict[str, Question] = {" ": Noul(), "Q 🙂": Noul(), "a.b/c": Noul()}
    assert check_questions(questions) is questions


def test_errors_repeat_no_megabytes() -> None:
    """They are answers to whoever sent them, and lines of somebody's log."""
    long = "x" * 1_000_000
    for make in (
        lambda: Score(criteria=[long, long]),
        lambda: Choice(criteria={long + "\ud800": None, "b": None}),
        lambda: Choice(criteria={long: {"a": math.nan}, "b": None}),
        lambda: Noul(criteria={long: None}),
        lambda: check_questions({long: "no question"}),
    ):
        with pytest.raises(QuestionError) as caught:
            make()
        assert len(str(caught.value)) < 500
