"""The fields of a request, each of the kind that it must be, or a RequestError that says where."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from readoff.engine.echo import echo
from readoff.engine.errors import QuestionError, RequestError
from readoff.engine.text import check_text, check_unicode
from readoff.engine.wire import Loc


def object_of(value: object, what: str, loc: Loc) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise RequestError(f"{what} must be an object, not {kind_of(value)}.", loc)
    return value


def array_of(value: object, what: str, loc: Loc, kinds: str = "an array") -> Sequence[object]:
    if not isinstance(value, list | tuple):
        raise RequestError(f"{what} must be {kinds}, not {kind_of(value)}.", loc)
    return value


def string_of(
    value: object, what: str, loc: Loc, kinds: str = "string", *, empty: bool = False
) -> str:
    if not isinstance(value, str):
        raise RequestError(f"{what} must be a {kinds}, not {kind_of(value)}.", loc)
    if not empty and not value.strip():
        raise RequestError(f"{what} is empty.", loc)
    try:
        check_text(value, what)
        check_unicode(value, what)
    except QuestionError as error:
        raise RequestError(str(error), loc) from error
    return value


def kind_of(value: object) -> str:
    return "null" if value is None else type(value).__name__


def shown(value: object) -> str:
    """What is said back of a value that may be megabytes long."""
    text = json.dumps(value) if isinstance(value, bool) else repr(value)
    return echo(text)
