"""Text is checked without recursion and reads well."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from readoff.engine.errors import QuestionError
from readoff.engine.text import (
    MAX_DEPTH,
    check_text,
    render_entry,
    render_name,
    render_parts,
    render_text,
)

LEAVES = (
    st.text()
    | st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
)
JSON = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth - 1):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (None, "not null"),
        (3, "not int"),
        (True, "not bool"),
        (b"bytes", "not bytes"),
        ({"a": float("nan")}, "nan"),
        ([float("inf")], "inf"),
        ({1: "a"}, "keys are strings"),
        ([{"a": {1, 2}}], "holds a set"),
        ([b"x"], "holds a bytes"),
        ("\ud800", r"holds half of a surrogate pair\.$"),
        ({"\udfff": 1}, "surrogate"),
        ([10**5000], "digits"),
        (nested(MAX_DEPTH + 1), "levels deep"),
        (nested(100_000), "levels deep"),
    ],
)
def test_what_json_cannot_hold_is_refused_by_name(value: Any, message: str) -> None:
    with pytest.raises(QuestionError, match=rf"^The state .*{message}"):
        check_text(value, "The state")


def test_a_list_that_contains_itself_is_refused() -> None:
    value: list[Any] = [1]
    value += [value, value]
    with pytest.raises(QuestionError, match="levels deep"):
        check_text(value, "The state")


@pytest.mark.parametrize("value", ["", {}, [], (), ("a", 1), nested(MAX_DEPTH), [10**4000]])
def test_legal_text_comes_back_as_it_is_and_renders(value: Any) -> None:
    assert check_text(value, "x") is value
    assert isinstance(render_text(value), str)


@given(st.text())
def test_a_string_is_never_changed(text: str) -> None:
    assert render_text(text) == text
    assert render_parts(text) == [text]


def test_an_object_reads_as_indented_lines() -> None:
    state = {
        "客户": "Zoë 王",
        "since": 2021,
        "vip": True,
        "note": None,
        "orders": [{"id": 1, "items": ["pen", "ink"]}, {"id": 2, "items": []}],
        "address": {"zip": "02139", "geo": {}},
    }
    expected = """\
客户: Zoë 王
since: 2021
vip: true
note: null
orders:
  - id: 1
    items:
      - pen
      - ink
  - id: 2
    items: []
address:
  zip: 02139
  geo: {}"""
    assert render_text(state) == expected


def test_lists_in_lists_stay_apart() -> None:
    assert render_text([["a", "b"], ["c"]]) == "- - a\n  - b\n- - c"


@given(st.builds("{}{}{}".format, st.text('"a '), st.sampled_from("\n\r"), st.text()))
def test_several_lines_stand_unchanged_between_fences_they_cannot_close(text: str) -> None:
    fence, _, rest = render_text({"k": text}).removeprefix("k: ").partition("\n")
    assert set(fence) == {'"'}
    assert len(fence) >= 3
    assert fence not in text
    assert rest == f"{text}\n{fence}"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"a": 1}, {"a": "1"}),
        ({"a": None}, {"a": "null"}),
        ({"a": True}, {"a": "true"}),
        ({"a": []}, {"a": "[]"}),
        ({"a": ""}, {"a": " "}),
        ({"a": "x"}, {"a": '"x"'}),
        ({"a": "x\nb: y"}, {"a": "x", "b": "y"}),
        ({"a": "x\nb: y"}, {"a": {"x": None, "b": "y"}}),
        ({"a: b": "c"}, {"a": "b: c"}),
        ({"a\nb": 1}, {"a": 1, "b": 1}),
        ({"": 1}, {'""': 1}),
        (["a\n- b"], ["a", "b"]),
        (["a", "b"], ["a", ["b"]]),
    ],
)
def test_values_that_differ_read_differently(one: Any, other: Any) -> None:
    assert render_text(one) != render_text(other)


@given(st.lists(JSON, max_size=4) | st.dictionaries(st.text(), JSON, max_size=4))
def test_no_escapes_and_every_string_is_readable(value: Any) -> None:
    """Ordinary strings stand in the text as they are, whatever their script."""
    shown = render_text(check_text(value, "x"))

    def strings(item: Any) -> list[str]:
        if isinstance(item, dict):
            return [*item, *(s for v in item.values() for s in strings(v))]
        if isinstance(item, list):
            return [s for v in item for s in strings(v)]
        return [item] if isinstance(item, str) else []

    for text in strings(value):
        assert text in shown or json.dumps(text, ensure_ascii=False) in shown


@given(st.lists(JSON, min_size=1, max_size=4), st.lists(JSON, max_size=4))
def test_a_longer_array_begins_with_the_parts_of_a_shorter_one(one: Any, more: Any) -> None:
    assert render_parts(one + more)[: len(one)] == render_parts(one)


@given(st.lists(JSON, min_size=1, max_size=4))
def test_the_parts_of_an_array_are_the_array(value: Any) -> None:
    assert "\n".join(render_parts(value)) == render_text(value)


def test_an_empty_array_is_shown_as_one() -> None:
    assert render_parts([]) == ["[]"]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, "A."),
        ("Calm", "A. Calm"),
        ("12", "A. 12"),
        ("", "A. "),
        ("a\nB. b", 'A. """\na\nB. b\n"""'),
        ({"owns": ["x", "y"]}, "A.\n  owns:\n    - x\n    - y"),
        (["x", "y"], "A.\n  - x\n  - y"),
        ([], "A. []"),
    ],
)
def test_entries(value: Any, expected: str) -> None:
    assert render_entry("A.", value) == expected


@pytest.mark.parametrize("name", ["billing", "Zoë 王", "a.b/c", "it's", "50% off", "-1", "a:b"])
def test_ordinary_names_stay_as_they_are(name: str) -> None:
    assert render_name(name) == name


@pytest.mark.parametrize("name", ["", " a", "a\nb", '"a"', "- a", "a: b", "a:"])
def test_misleading_names_are_quoted(name: str) -> None:
    assert json.loads(render_name(name)) == name
    assert "\n" not in render_name(name)
