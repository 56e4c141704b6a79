"""Rows as they are read, and every way in which one can be wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from readoff.learn.errors import ExampleError
from readoff.learn.examples import NO_FAMILY, parse_example, read_examples

from .rig import ANSWERS, QUESTIONS, example, row, write_rows


def test_what_a_row_says() -> None:
    found = example(
        weight={"route": 2, "due": 0},
        family={"route": "routing"},
        language="en",
        split="valid",
        group="g",
        source="here",
        x_note=[1],
    )
    assert found.targets == {
        "route": (0.0, 1.0, 0.0),
        "angry": (0.25, 0.0, 0.75),
        "due": (1.0, 0.0),
    }
    assert found.weights == {"route": 2.0, "angry": 1.0, "due": 0.0}
    assert found.weight == 3.0
    assert found.families == {"route": "routing", "angry": NO_FAMILY, "due": NO_FAMILY}
    assert (found.language, found.split, found.group) == ("en", "valid", "g")
    assert (found.source, found.where) == ("here", "rows, line 1")


def test_the_plainest_row() -> None:
    found = example()
    assert set(found.weights.values()) == {1.0}
    assert set(found.families.values()) == {NO_FAMILY}
    assert found.language is found.split is found.group is found.source is None


def test_rows_labelled_by_a_model_weigh_half() -> None:
    assert set(example(source="escalation").weights.values()) == {0.5}
    assert example(source="escalation", weight={"due": 3}).weights["due"] == 3.0
    assert example(source="escalation", weight={"due": 3}).weights["route"] == 0.5
    assert set(example(source="escalation", weight=1).weights.values()) == {1.0}


def test_what_rounding_leaves_is_made_up_for() -> None:
    answers = dict(ANSWERS) | {"route": {"a": 0.333, "b": 0.333, "c": 0.3335}}
    found = example(answers=answers).targets["route"]
    assert sum(found) == pytest.approx(1.0, abs=1e-12)


def answers(**changed: Any) -> dict[str, Any]:
    return {"answers": dict(ANSWERS) | changed}


WRONG = {
    "an option that isn't there": (answers(route="d"), 'answer "route".*"d" is none of the opt'),
    "a level that isn't there": (answers(angry=3), 'answer "angry".*none of the options'),
    "a soft label outside": (answers(route={"d": 1.0}), "none of the options"),
    "a sum below 1": (answers(route={"a": 0.5, "b": 0.4}), r"sum to 0.9, and must sum to 1"),
    "a sum above 1": (answers(due={"true": 0.6, "false": 0.6}), r"sum to 1.2"),
    "no probability": (answers(route={}), "no label has a weight above zero"),
    "a negative probability": (answers(route={"a": -0.5, "b": 1.5}), "not negative"),
    "a label of another kind": (answers(due="true"), "true or false"),
    "a stray answer": (answers(other=1), 'answer "other" belongs to no question'),
    "an answer missing": ({"answers": {"route": "a"}}, 'question "angry" has no answer'),
    "no answers": ({"answers": None}, '"answers" must be an object'),
    "a negative weight": ({"weight": -1}, "not negative, and it is -1"),
    "a negative weight of one": ({"weight": {"due": -0.5}}, 'weight of "due".*not negative'),
    "a weight beyond all others": ({"weight": 1e39}, "0 or from 0.000001 to 1,000,000.* 1e.39"),
    "a weight that vanishes": ({"weight": {"due": 1e-60}}, 'weight of "due" must be 0 or.*1e-60'),
    "a weight that is none": ({"weight": "1"}, "must be a number"),
    "a weight of nothing": ({"weight": {"other": 1}}, 'weight of "other" belongs to no question'),
    "an empty family": ({"family": " "}, "family must be a name"),
    "an empty family of one": ({"family": {"due": ""}}, "family must be a name"),
    "a family of nothing": ({"family": {"other": "a"}}, "belongs to no question"),
    "an unknown split": ({"split": "dev"}, "train, valid, test"),
    "an unknown field": ({"label": 1}, 'no field "label"'),
    "a number as the state": ({"state": 3}, "state"),
    "no questions": ({"questions": {}}, "no question"),
}


@pytest.mark.parametrize("case", WRONG)
def test_bad_rows(case: str) -> None:
    change, message = WRONG[case]
    content = {"state": "s", "questions": QUESTIONS, "answers": dict(ANSWERS)} | change
    with pytest.raises(ExampleError, match=message) as caught:
        parse_example(json.dumps(content).encode(), "rows, line 7")
    assert str(caught.value).startswith("rows, line 7")


def test_the_bounds_of_a_weight() -> None:
    for weight in (0, 1e-6, 0.5, 0.98, 1, 1_000_000):
        assert set(example(weight=weight).weights.values()) == {float(weight)}


def test_errors_show_the_beginning_of_a_field() -> None:
    long = "x" * 10_000
    changes: list[dict[str, Any]] = [
        {"family": [long]},
        {"split": long},
        {long: 1},
        {"answers": dict(ANSWERS) | {long: 1}},
        {"answers": dict(ANSWERS) | {"route": long}},
        {"weight": {long: 1}},
        {"questions": {long: {}}},
        {"questions": {**QUESTIONS, long: QUESTIONS["due"]}},
    ]
    for change in changes:
        with pytest.raises(ExampleError) as caught:
            example(**change)
        assert len(str(caught.value)) < 300


def test_errors_speak_of_rows() -> None:
    for line in (b"{", b"[]", b"\xff", b'{"a": 1, "a": 2}', b'{"a": 1e999}'):
        with pytest.raises(ExampleError, match="row") as caught:
            parse_example(line, "line 7")
        assert "request" not in str(caught.value)


@pytest.mark.parametrize("line", [b"{", b"[]", b'{"state": NaN}', b"\xff", b'{"a":1,"a":2}'])
def test_lines_that_are_no_object(line: bytes) -> None:
    with pytest.raises(ExampleError, match="rows, line 7"):
        parse_example(line, "rows, line 7")


def test_files(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "a.jsonl", [row("one"), row("two")])
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().replace(b"\n", b"\r\n\r\n"))
    found = list(read_examples(path))
    assert [one.state for one in found] == ["one", "two"]
    assert found[1].where == f"{path}, line 3"
    with pytest.raises(ExampleError, match=r"none\.jsonl can't be read"):
        list(read_examples(tmp_path / "none.jsonl"))
