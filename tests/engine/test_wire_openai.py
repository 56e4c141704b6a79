"""The OpenAI dialect: what is legal, what comes back, and how errors say where."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from readoff.engine.answers import Answer, Decision, Usage, build_answer
from readoff.engine.errors import NumericsError, RequestError
from readoff.engine.questions import Choice, Noul, Score
from readoff.engine.wire_openai import DecisionRequest, parse_request

ASKED: dict[str, Any] = {
    "model": "m",
    "input": "I paid twice.",
    "questions": [
        {"type": "predicate", "name": "urgent", "instructions": "Is it urgent?"},
        {
            "type": "choice",
            "instructions": "Which?",
            "choices": [{"value": True}, {"value": "true", "description": "the word"}],
        },
        {
            "type": "score",
            "name": "anger",
            "instructions": "How angry?",
            "levels": [{"label": "calm"}, {"label": "cross", "description": "says so"}],
        },
    ],
}


def decide(request: DecisionRequest, *logits: float) -> Decision:
    """The first option gets most, as far as no logits are given."""
    answers: dict[str, Answer] = {}
    for name, question in request.questions.items():
        n = len(question.options)
        p = [0.7] + [0.3 / (n - 1)] * (n - 1)
        answers[name] = build_answer(question, list(logits or p), p)
    return Decision(answers, Usage(40, 25, 15), 1.0, "engine")


def test_a_request_and_its_response() -> None:
    request = parse_request(ASKED)
    assert request.model == "m"
    assert request.state == "I paid twice."
    urgent, which, anger = request.questions.values()
    assert urgent == Noul(instructions="Is it urgent?")
    assert which == Choice(instructions="Which?", criteria={"true": None, '"true"': "the word"})
    assert anger == Score(instructions="How angry?", criteria=["calm", "cross: says so"])
    response = request.render(decide(request), "tiny")
    assert json.loads(json.dumps(response)) == {
        "model": "tiny",
        "answers": [
            {"type": "predicate", "name": "urgent", "probability": 0.7},
            {
                "type": "choice",
                "name": None,
                "choice": True,
                "probabilities": [
                    {"value": True, "probability": 0.7},
                    {"value": "true", "probability": 0.3},
                ],
                "confidence": pytest.approx(0.4),
            },
            {
                "type": "score",
                "name": "anger",
                "score": pytest.approx(0.3),
                "probabilities": [
                    {"value": 0, "label": "calm", "probability": 0.7},
                    {"value": 1, "label": "cross", "probability": 0.3},
                ],
                "confidence": pytest.approx(0.4),
            },
        ],
        "usage": {
            "input_tokens": 40,
            "input_tokens_details": {"cached_tokens": 15},
            "output_tokens": 3,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": 43,
        },
    }


def choice_of(*values: object) -> DecisionRequest:
    choices = [{"value": value} for value in values]
    question = {"type": "choice", "instructions": "?", "choices": choices}
    return parse_request(ASKED | {"questions": [question]})


@pytest.mark.parametrize(
    "values",
    [
        ("a", "b"),
        (True, False),
        (True, "true", '"true"', "True"),
        ("false", False, '"false"', '"\\"false\\""'),
        tuple(f"option {n}" for n in range(255)),
    ],
)
def test_values_come_back_as_they_were_and_have_names_of_their_own(values: tuple[Any]) -> None:
    request = choice_of(*values)
    (question,) = request.questions.values()
    assert isinstance(question, Choice)
    assert len(question.criteria) == len(values)
    (answer,) = request.render(decide(request), "m")["answers"]  # type: ignore[misc]
    found = [entry["value"] for entry in answer["probabilities"]]
    assert json.dumps(found) == json.dumps(list(values))
    assert json.dumps(answer["choice"]) == json.dumps(values[0])


def test_the_choice_is_the_most_probable_value() -> None:
    request = choice_of("true", True)
    (name,) = request.questions
    answer = build_answer(request.questions[name], [0.0, 1.0], [0.2, 0.8])
    decision = Decision({name: answer}, Usage(1, 1, 0), 1.0, "m")
    (found,) = request.render(decision, "m")["answers"]  # type: ignore[misc]
    assert found["choice"] is True


@pytest.mark.parametrize(
    ("given", "state"),
    [
        ("text", "text"),
        ("", ""),
        ([{"role": "user", "content": "hi"}], [{"role": "user", "content": "hi"}]),
        ([{"content": "hi"}], [{"role": "user", "content": "hi"}]),
        (
            [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "a"}]}],
            [{"role": "user", "content": "a"}],
        ),
        (
            [
                {"role": "user", "content": "a"},
                {
                    "role": "assistant",
                    "content": [
                        {"type": "output_text", "text": "b"},
                        {"type": "text", "text": "c"},
                    ],
                },
            ],
            [{"role": "user", "content": "a"}, {"role": "assistant", "content": ["b", "c"]}],
        ),
    ],
)
def test_inputs(given: object, state: object) -> None:
    assert parse_request(ASKED | {"input": given}).state == state


def test_names_are_optional_and_ids_never_meet() -> None:
    nameless = {"type": "predicate", "instructions": "?"}
    questions = [nameless, nameless | {"name": "question 0"}, nameless | {"name": None}]
    request = parse_request(ASKED | {"questions": questions})
    assert len(request.questions) == 3
    assert list(request.questions)[1] == "question 0"
    response = request.render(decide(request), "m")
    assert [answer["name"] for answer in response["answers"]] == [None, "question 0", None]  # type: ignore[attr-defined]


def broken(path: list[Any], value: object) -> dict[str, Any]:
    """`ASKED` with one place changed; `...` takes it out."""
    content = copy.deepcopy(ASKED)
    holder: Any = content
    for key in path[:-1]:
        holder = holder[key]
    if value is ...:
        del holder[path[-1]]
    else:
        holder[path[-1]] = value
    return content


Q = "questions"


@pytest.mark.parametrize(
    ("path", "value", "loc"),
    [
        (["model"], ..., ["model"]),
        (["model"], 5, ["model"]),
        (["input"], ..., ["input"]),
        (["input"], None, ["input"]),
        (["input"], [], ["input"]),
        (["input"], {"role": "user"}, ["input"]),
        (["input"], ["hi"], ["input", 0]),
        (["input"], [{"role": "user"}], ["input", 0, "content"]),
        (["input"], [{"role": "user", "content": []}], ["input", 0, "content"]),
        (["input"], [{"role": 5, "content": "x"}], ["input", 0, "role"]),
        (
            ["input"],
            [{"role": "user", "content": [{"type": "input_image", "image_url": "data:"}]}],
            ["input", 0, "content", 0, "type"],
        ),
        (["input"], [{"type": "reasoning", "content": "x"}], ["input", 0]),
        (["input"], "\ud800", ["input"]),
        ([Q], ..., [Q]),
        ([Q], [], [Q]),
        ([Q], {"urgent": {}}, [Q]),
        ([Q, 0], None, [Q, 0]),
        ([Q, 0, "type"], ..., [Q, 0, "type"]),
        ([Q, 0, "type"], "noul", [Q, 0, "type"]),
        ([Q, 0, "type"], ["predicate"], [Q, 0, "type"]),
        ([Q, 0, "name"], "", [Q, 0, "name"]),
        ([Q, 0, "name"], 7, [Q, 0, "name"]),
        ([Q, 2, "name"], "urgent", [Q, 2, "name"]),
        ([Q, 0, "instructions"], ..., [Q, 0, "instructions"]),
        ([Q, 0, "instructions"], None, [Q, 0, "instructions"]),
        ([Q, 1, "choices"], ..., [Q, 1, "choices"]),
        ([Q, 1, "choices"], {}, [Q, 1, "choices"]),
        ([Q, 1, "choices"], [{"value": "a"}], [Q, 1, "choices"]),
        ([Q, 1, "choices"], [{"value": str(i)} for i in range(256)], [Q, 1, "choices"]),
        ([Q, 1, "choices", 1, "value"], True, [Q, 1, "choices", 1, "value"]),
        ([Q, 1, "choices", 1, "value"], 1, [Q, 1, "choices", 1, "value"]),
        ([Q, 1, "choices", 1, "value"], " ", [Q, 1, "choices", 1, "value"]),
        ([Q, 1, "choices", 1, "value"], ..., [Q, 1, "choices", 1, "value"]),
        ([Q, 1, "choices", 1, "description"], 5, [Q, 1, "choices", 1, "description"]),
        ([Q, 1, "choices", 1], "a", [Q, 1, "choices", 1]),
        ([Q, 2, "levels"], [{"label": str(i)} for i in range(11)], [Q, 2, "levels"]),
        ([Q, 2, "levels", 1, "label"], "calm", [Q, 2, "levels", 1, "label"]),
        ([Q, 2, "levels", 1, "label"], None, [Q, 2, "levels", 1, "label"]),
    ],
)
def test_what_is_not_legal_says_where(path: list[Any], value: object, loc: list[Any]) -> None:
    with pytest.raises(RequestError) as caught:
        parse_request(broken(path, value))
    assert list(caught.value.loc) == ["body", *loc]


@pytest.mark.parametrize("content", [None, [], "x", 5])
def test_what_is_no_object(content: object) -> None:
    with pytest.raises(RequestError, match="must be an object"):
        parse_request(content)


def test_numbers_that_are_none_never_leave() -> None:
    request = parse_request(ASKED)
    decision = decide(request)
    object.__setattr__(decision["urgent"], "noul", float("nan"))
    with pytest.raises(NumericsError, match="not finite"):
        request.render(decision, "m")


def test_levels_that_would_read_alike_stay_two() -> None:
    levels = [{"label": "a", "description": "b"}, {"label": "a: b"}, {"label": "c"}]
    asked = {"type": "score", "instructions": "?", "levels": levels}
    request = parse_request({"model": "m", "input": "x", "questions": [asked]})
    (question,) = request.questions.values()
    assert isinstance(question, Score)
    assert list(question.criteria) == [{"label": "a", "description": "b"}, "a: b", "c"]


def test_what_is_wrong_is_not_said_back_in_full() -> None:
    asked = {"type": "x" * 1_000_000, "instructions": "?"}
    with pytest.raises(RequestError) as caught:
        parse_request({"model": "m", "input": "x", "questions": [asked]})
    assert len(str(caught.value)) < 400
