"""Text: a string, a JSON object or a JSON array, and how it reads in a prompt.

States, instructions and descriptions are all `Text`. A string is shown exactly as it is. Objects
and arrays are shown as indented `key: value` and `- item` lines, in the order given, without
`\\u` escapes and without quotes around ordinary strings, because small models read that better
than JSON and it costs fewer tokens. A string of several lines is put, unchanged, between two
lines of quotes, so it can't pass for a neighbouring key or item.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias, cast

from readoff.engine.echo import echo
from readoff.engine.errors import QuestionError

Text: TypeAlias = str | Mapping[str, object] | Sequence[object]

MAX_DEPTH = 100
_INDENT = "  "
_MAX_INT_BITS = 14_000  # Python itself refuses to print integers of more than 4300 digits
_JSON_SCALAR = re.compile(r"true|false|null|\[\]|\{\}|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?")
_QUOTES = re.compile(r'"+')


def is_array(value: object) -> bool:
    """Whether `value` is a JSON array: a sequence that is neither text nor bytes."""
    return isinstance(value, Sequence) and not isinstance(value, str | bytes | bytearray)


def check_text(value: object, what: str) -> Text:
    """Return `value` unchanged if it is legal `Text`.

    Raises QuestionError, naming `what`, for null, numbers and booleans at the top, for anything
    JSON can't hold (NaN and infinity too), for broken Unicode, and for nesting deeper than
    `MAX_DEPTH`. Nothing recurses, so a nesting bomb can't exhaust the stack.
    """
    if not (isinstance(value, str | Mapping) or is_array(value)):
        name = "null" if value is None else type(value).__name__
        raise QuestionError(f"{what} must be a string, an object or an array, not {name}.")
    pending: list[tuple[object, int]] = [(value, 0)]
    while pending:
        item, depth = pending.pop()
        if isinstance(item, str):
            check_unicode(item, what)
        elif item is None or isinstance(item, bool):
            continue
        elif isinstance(item, int):
            if item.bit_length() > _MAX_INT_BITS:
                raise QuestionError(f"{what} holds an integer of thousands of digits.")
        elif isinstance(item, float):
            if not math.isfinite(item):
                raise QuestionError(f"{what} holds {item!r}, which JSON has no number for.")
        elif depth >= MAX_DEPTH:
            raise QuestionError(f"{what} is nested more than {MAX_DEPTH} levels deep.")
        elif isinstance(item, Mapping):
            for key, inner in item.items():
                if not isinstance(key, str):
                    raise QuestionError(
                        f"{what} has the key {echo(repr(key))}; object keys are strings."
                    )
                check_unicode(key, what)
                pending.append((inner, depth + 1))
        elif is_array(item):
            pending.extend((inner, depth + 1) for inner in cast(Sequence[object], item))
        else:
            raise QuestionError(f"{what} holds a {type(item).__name__}, which isn't JSON.")
    return cast(Text, value)


def least_tokens(value: object) -> int:
    """How many tokens legal `Text` has at least, without rendering it: every scalar and every empty
    container stands on a line of its own, and no token is part of two of those lines."""
    count = 0
    pending = [value]
    while pending:
        item = pending.pop()
        if isinstance(item, Mapping) and item:
            pending.extend(item.values())
        elif is_array(item) and item:
            pending.extend(cast(Sequence[object], item))
        else:
            count += 1
    return count


def check_unicode(text: str, what: str) -> None:
    """Raise QuestionError if `text` holds half of a surrogate pair, which UTF-8 can't encode."""
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise QuestionError(f"{what} holds half of a surrogate pair.") from None


def render_text(value: Text) -> str:
    """How `value` reads: a string as it is, an object or array as lines. No newline is added."""
    if isinstance(value, str):
        return value
    inline = _inline(value)
    return "\n".join(_lines(value, "")) if inline is None else inline


def render_parts(state: Text) -> list[str]:
    """The parts of a state, each of which becomes one piece of the prompt.

    A non-empty array has one part an element, written as a `- ` item and without an enclosing
    bracket, so that a longer array begins with the parts of a shorter one. Everything else is a
    single part.
    """
    if is_array(state) and state:
        return ["\n".join(_lines([item], "")) for item in cast(Sequence[object], state)]
    return [render_text(state)]


def render_entry(head: str, value: Text | None) -> str:
    """`head` followed by `value`: on the same line when it fits there, else indented below."""
    if value is None:
        return head
    if isinstance(value, str):
        return f"{head} {_fenced(value) if _has_lines(value) else value}"
    inline = _inline(value)
    if inline is not None:
        return f"{head} {inline}"
    return "\n".join([head, *_lines(value, _INDENT)])


def render_name(name: str) -> str:
    """A key or an option name on one line: as it is, or as a JSON string if that would mislead."""
    plain = (
        name.strip() == name
        and name != ""
        and not _has_lines(name)
        and not name.startswith(('"', "- "))
        and ": " not in name
        and not name.endswith(":")
    )
    return name if plain else json.dumps(name, ensure_ascii=False)


def _lines(value: object, pad: str) -> Iterator[str]:
    if isinstance(value, Mapping):
        for key, item in value.items():
            head = f"{pad}{render_name(key)}:"
            inline = _inline(item)
            if inline is None:
                yield head
                yield from _lines(item, pad + _INDENT)
            else:
                yield f"{head} {inline}"
        return
    for item in cast(Sequence[object], value):
        inline = _inline(item)
        if inline is None:
            first, *rest = _lines(item, pad + _INDENT)
            yield f"{pad}- {first.removeprefix(pad + _INDENT)}"
            yield from rest
        else:
            yield f"{pad}- {inline}"


def _inline(value: object) -> str | None:
    """A scalar or an empty container; None for what needs lines of its own."""
    if isinstance(value, str):
        return _scalar(value)
    if value is None or isinstance(value, bool | int | float):
        return json.dumps(value)
    if not value:
        return "{}" if isinstance(value, Mapping) else "[]"
    return None


def _scalar(text: str) -> str:
    if _has_lines(text):
        return _fenced(text)
    looks_quoted = text.startswith('"') and (text.endswith('"') or text.startswith('"""'))
    if not text.strip() or looks_quoted or _JSON_SCALAR.fullmatch(text):
        return json.dumps(text, ensure_ascii=False)
    return text


def _has_lines(text: str) -> bool:
    return "\n" in text or "\r" in text


def _fenced(text: str) -> str:
    longest = max((len(run) for run in _QUOTES.findall(text)), default=0)
    fence = '"' * max(3, longest + 1)
    return f"{fence}\n{text}\n{fence}"
