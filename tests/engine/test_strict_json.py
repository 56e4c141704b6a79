"""JSON of requests: what the standard library lets pass and we don't."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from readoff.engine.errors import RequestError
from readoff.engine.strict_json import MAX_DEPTH, loads

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**20), 10**20)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8")),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(st.characters(codec="utf-8")), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(VALUES, st.booleans())
def test_what_is_json_is_read_as_the_standard_library_reads_it(value: Any, ascii_: bool) -> None:
    text = json.dumps(value, ensure_ascii=ascii_)
    assert loads(text) == value
    assert loads(text.encode()) == value


@pytest.mark.parametrize(
    ("data", "words", "loc"),
    [
        (b"", "not JSON", ("body", 0)),
        (b"   ", "not JSON", ("body", 3)),
        (b'{"a": 1', "not JSON", ("body", 7)),
        (b"{} {}", "not JSON: Extra data at line 1, column 4", ("body", 3)),
        (b"{'a': 1}", "not JSON", ("body", 1)),
        (b'"\t"', "control character", ("body", 1)),
        (b"\xff\xfe", "not UTF-8", ("body", 0)),
        (b'{"a": "\xed\xa0\x80"}', "not UTF-8", ("body", 7)),
        (b'{"a": NaN}', "NaN", ("body",)),
        (b"[Infinity]", "Infinity", ("body",)),
        (b"[-Infinity]", "-Infinity", ("body",)),
        (b"[" + b"9" * 5000 + b"]", "can't be read", ("body",)),
        (b'{"a": 1, "b": {"c": 1, "c": 1}}', "'c' twice", ("body",)),
        (b'{"\\u0061": 1, "a": 2}', "'a' twice", ("body",)),
        (b'{"a": ["x", "\\ud800"]}', "half of a surrogate", ("body", "a", 1)),
        (b'{"a": "\\uDFFF\\uD800"}', "half of a surrogate", ("body", "a")),
        (b'{"b": {"\\ud83d": 1}}', r"'\\ud83d' holds half", ("body", "b")),
    ],
)
def test_what_is_refused_is_named(data: bytes, words: str, loc: Any) -> None:
    with pytest.raises(RequestError, match=words) as caught:
        loads(data)
    assert caught.value.loc == loc
    str(caught.value).encode()


def test_text_with_half_a_pair_that_was_never_escaped() -> None:
    with pytest.raises(RequestError, match="half of a surrogate"):
        loads('{"a": "\ud800"}')


def test_whole_pairs_and_escaped_backslashes_are_fine() -> None:
    assert loads(b'["\\ud83d\\ude42", "\\\\ud800"]') == ["🙂", "\\ud800"]


def nested(depth: int, opening: str = "[", closing: str = "]") -> str:
    return opening * depth + closing * depth


@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}")])
def test_the_depth_is_limited_exactly(opening: str, closing: str) -> None:
    inner = "" if opening == "[" else "1"
    loads(opening * MAX_DEPTH + inner + closing * MAX_DEPTH)
    deep = opening * (MAX_DEPTH + 1) + inner + closing * (MAX_DEPTH + 1)
    with pytest.raises(RequestError, match="nested too deeply: more than 128"):
        loads(deep)


def test_depth_is_not_the_number_of_brackets() -> None:
    assert loads("[" + "[],{}," * 500 + "[]]", 2) == [[], {}] * 500 + [[]]
    text = '["' + "[{" * 500 + '\\"[[[[", []]'
    assert loads(text, 2) == ["[{" * 500 + '"[[[[', []]
    with pytest.raises(RequestError, match="more than 2 "):
        loads("[[[]], " + nested(2) + "]", 2)


def test_a_bomb_is_refused_even_where_the_limit_is_too_high() -> None:
    with pytest.raises(RequestError, match="nested too deeply"):
        loads(nested(200_000), 1_000_000)


@pytest.mark.parametrize("data", ['"' + '\\"[' * 300_000, '{"' * 300_000, "[" * 1_000_000])
def test_rubbish_is_refused_in_linear_time(data: str) -> None:
    start = time.perf_counter()
    with pytest.raises(RequestError):
        loads(data)
    assert time.perf_counter() - start < 5.0  # quadratic: minutes


@pytest.mark.parametrize("number", ["1e999", "-1e400", "1" * 500 + ".0"])
def test_numbers_that_would_become_infinite_are_refused(number: str) -> None:
    with pytest.raises(RequestError, match="no finite number") as caught:
        loads(f'{{"a": [{number}]}}')
    assert len(str(caught.value)) < 300
    assert loads("[1e308, 1e-999]") == [1e308, 0.0]
