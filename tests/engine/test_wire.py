"""Requests of the wire contract: strict about what is wrong, lenient about what is allowed."""

from __future__ import annotations

import copy
import json
import math
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from readoff.engine import wire
from readoff.engine.errors import RequestError
from readoff.engine.questions import Choice, Noul, Score
from readoff.engine.strict_json import loads

REQUEST: dict[str, Any] = {
    "model": "jev-latest",
    "state": "text",
    "questions": {
        "urgent": {"type": "noul", "instructions": "…", "criteria": {"true": "a", "false": "b"}},
        "team": {
            "type": "choice",
            "instructions": "…",
            "criteria": {"billing": "x", "sales": None},
        },
        "anger": {"type": "score", "instructions": "…", "criteria": ["Calm", "Mad", "Very angry"]},
    },
}


def parse(**changes: Any) -> wire.Request:
    return wire.parse_request(copy.deepcopy(REQUEST) | changes)


def one(question: Any) -> wire.Request:
    return parse(questions={"q": question})


def test_the_request_of_the_contract() -> None:
    request = wire.parse_request(loads(json.dumps(REQUEST)))
    assert request.model == "jev-latest"
    assert request.state == "text"
    assert dict(request.questions) == {
        "urgent": Noul(instructions="…", criteria={"true": "a", "false": "b"}),
        "team": Choice(instructions="…", criteria={"billing": "x", "sales": None}),
        "anger": Score(instructions="…", criteria=["Calm", "Mad", "Very angry"]),
    }
    assert list(request.questions) == ["urgent", "team", "anger"]


@pytest.mark.parametrize("state", ["", "x", {}, {"a": [1, None]}, [], ["a", {"b": 2}]])
def test_states_of_every_kind(state: Any) -> None:
    assert parse(state=state).state == state


@pytest.mark.parametrize(
    "question",
    [
        {"type": "noul"},
        {"type": "noul", "instructions": None, "criteria": None},
        {"type": "noul", "criteria": {}},
        {"type": "noul", "criteria": {"true": "yes"}},
        {"type": "noul", "criteria": {"false": None}},
        {"type": "noul", "instructions": {"task": "x"}, "criteria": {"true": ["a"], "false": {}}},
        {"type": "choice", "criteria": {"a": None, "b": {"owns": ["x"]}, "환불 🙂": ["y"]}},
        {"type": "choice", "criteria": {f"Queue {i:03d}": None for i in range(255)}},
        {"type": "score", "criteria": [{"label": "Calm"}, ["x"], "Very angry"]},
        {"type": "score", "criteria": [f"Level {i}" for i in range(10)], "x_note": 1},
    ],
)
def test_everything_the_contract_allows(question: Any) -> None:
    assert one(question).questions["q"].type == question["type"]


def test_unknown_fields_are_ignored_and_the_model_is_optional() -> None:
    assert parse(x_trace_id="t", seed=7).model == "jev-latest"
    request = {key: REQUEST[key] for key in ("state", "questions")}
    assert wire.parse_request(request).model is None


@pytest.mark.parametrize("name", [" ", "zz-renamed.1", "Q 🙂", "__class__", "a/b"])
def test_any_non_empty_id_is_legal(name: str) -> None:
    assert list(parse(questions={name: {"type": "noul"}}).questions) == [name]


@pytest.mark.parametrize("missing", ["state", "questions"])
def test_missing_fields(missing: str) -> None:
    request = {key: value for key, value in REQUEST.items() if key != missing}
    with pytest.raises(RequestError, match="required") as caught:
        wire.parse_request(request)
    assert caught.value.loc == ("body", missing)


DEEP: list[Any] = []
for _ in range(50_000):
    DEEP = [DEEP]


@pytest.mark.parametrize(
    ("changes", "loc"),
    [
        ({"state": None}, ("state",)),
        ({"state": 3}, ("state",)),
        ({"state": True}, ("state",)),
        ({"state": {"a": math.nan}}, ("state",)),
        ({"state": ["\ud800"]}, ("state",)),
        ({"state": DEEP}, ("state",)),
        ({"model": None}, ("model",)),
        ({"model": 5}, ("model",)),
        ({"questions": None}, ("questions",)),
        ({"questions": {}}, ("questions",)),
        ({"questions": [{"type": "noul"}]}, ("questions",)),
        ({"questions": {"": {"type": "noul"}}}, ("questions", "")),
        ({"questions": {"\ud800": {"type": "noul"}}}, ("questions",)),
        ({"questions": {"q": "Is it?"}}, ("questions", "q")),
    ],
)
def test_bad_fields_at_the_top(changes: Any, loc: Any) -> None:
    with pytest.raises(RequestError) as caught:
        parse(**changes)
    assert caught.value.loc == ("body", *loc)


@pytest.mark.parametrize(
    ("question", "loc"),
    [
        ({}, ("type",)),
        ({"instructions": "Refund?"}, ("type",)),
        ({"type": "boolean"}, ("type",)),
        ({"type": "Noul"}, ("type",)),
        ({"type": None}, ("type",)),
        ({"type": ["noul"]}, ("type",)),
        ({"type": "choice"}, ("choice", "criteria")),
        ({"type": "choice", "criteria": None}, ("choice", "criteria")),
        ({"type": "choice", "criteria": {}}, ("choice", "criteria")),
        ({"type": "choice", "criteria": {"a": None}}, ("choice", "criteria")),
        ({"type": "choice", "criteria": ["a", "b"]}, ("choice", "criteria")),
        ({"type": "choice", "criteria": {"": None, "a": None}}, ("choice", "criteria")),
        ({"type": "choice", "criteria": {"a": None, "b": 3}}, ("choice", "criteria", "b")),
        (
            {"type": "choice", "criteria": {f"{i}": None for i in range(256)}},
            ("choice", "criteria"),
        ),
        (
            {"type": "choice", "instructions": 3, "criteria": {"a": None, "b": None}},
            ("choice", "instructions"),
        ),
        ({"type": "score"}, ("score", "criteria")),
        ({"type": "score", "criteria": {"0": "Calm", "1": "Mad"}}, ("score", "criteria")),
        ({"type": "score", "criteria": []}, ("score", "criteria")),
        ({"type": "score", "criteria": ["Calm"]}, ("score", "criteria")),
        ({"type": "score", "criteria": [str(i) for i in range(11)]}, ("score", "criteria")),
        ({"type": "score", "criteria": ["Calm", None]}, ("score", "criteria", 1)),
        ({"type": "score", "criteria": ["Calm", "Calm"]}, ("score", "criteria")),
        ({"type": "score", "criteria": ["Calm", DEEP]}, ("score", "criteria", 1)),
        ({"type": "noul", "criteria": {"yes": "x"}}, ("noul", "criteria")),
        ({"type": "noul", "criteria": "x"}, ("noul", "criteria")),
        ({"type": "noul", "criteria": {"true": 1}}, ("noul", "criteria", "true")),
        ({"type": "noul", "instructions": False}, ("noul", "instructions")),
    ],
)
def test_bad_questions_are_located(question: Any, loc: Any) -> None:
    with pytest.raises(RequestError) as caught:
        one(question)
    assert caught.value.loc == ("body", "questions", "q", *loc)
    body = wire.render_error(caught.value)
    assert json.loads(wire.dumps(body)) == {
        "detail": [
            {
                "loc": ["body", "questions", "q", *loc],
                "msg": str(caught.value),
                "type": "value_error",
            }
        ]
    }


@pytest.mark.parametrize("content", [None, [], "x", 3, True])
def test_a_request_is_an_object(content: Any) -> None:
    with pytest.raises(RequestError, match="JSON object") as caught:
        wire.parse_request(content)
    assert caught.value.loc == ("body",)


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(),
        lambda inner: (
            st.lists(inner)
            | st.dictionaries(
                st.sampled_from(["state", "questions", "type", "criteria", "q"]) | st.text(), inner
            )
        ),
    )
)
def test_nothing_but_a_request_error_comes_out(content: Any) -> None:
    for request in (content, {**REQUEST, "questions": content}, {**REQUEST, "state": content}):
        try:
            wire.parse_request(request)
        except RequestError as error:
            assert error.loc[0] == "body"  # noqa: PT017


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b'{"model": "jev-latest", "state": "x", "questions": {', "not JSON"),
        (b"", "not JSON"),
        (b"\xff", "not UTF-8"),
        ('{"a": NaN}', "NaN"),
        ('{"a": -Infinity}', "-Infinity"),
        ('{"a": 1, "b": {"c": 2, "c": 3}}', "the key 'c' twice"),
        ("[" * 100_000 + "]" * 100_000, "nested too deeply"),
        (f'{{"a": {"9" * 5000}}}', "number"),
    ],
)
def test_text_that_is_no_request(data: Any, message: str) -> None:
    with pytest.raises(RequestError, match=message) as caught:
        loads(data)
    assert caught.value.loc[0] == "body"


def test_a_message_repeats_no_megabytes() -> None:
    for kind in ("x" * 3_000_000, ["é" * 3_000_000]):
        with pytest.raises(RequestError, match="…") as caught:
            wire.parse_request({"state": "s", "questions": {"q": {"type": kind}}})
        assert len(str(caught.value)) < 300
    with pytest.raises(RequestError, match=r"not 'bool'\.$"):
        wire.parse_request({"state": "s", "questions": {"q": {"type": "bool"}}})


def test_many_keys_before_the_first_that_is_there_twice() -> None:
    keys = ", ".join(f'"{i}": 0' for i in range(50_000))
    started = time.process_time()
    with pytest.raises(RequestError, match="the key '49999' twice"):
        loads(f'{{{keys}, "49999": 1}}')
    assert time.process_time() - started < 5  # comparing all pairs takes a minute


def test_text_in_and_out() -> None:
    assert loads('{"客户": [1, "\\u4f60"]}'.encode()) == {"客户": [1, "你"]}
    assert wire.dumps({"客户": "你"}) == '{"客户": "你"}'
    with pytest.raises(ValueError, match="JSON"):
        wire.dumps({"a": math.nan})
