"""`loads`: JSON as requests may hold it, read more strictly than the standard library does."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import NoReturn

from readoff.engine.echo import echo
from readoff.engine.errors import RequestError

MAX_DEPTH = 128
"""Objects and arrays within one another: the 100 of a text, inside a question's criteria."""


# A string that never ends takes the rest with it, or every quote in it would be tried in turn.
_NESTING = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|[\[{]|[\]}]', re.DOTALL)
_HALF = re.compile(r"\\u[dD][89a-fA-F]")


def loads(data: str | bytes, max_depth: int = MAX_DEPTH) -> object:
    """Parse JSON, given as text or as UTF-8.

    Raises RequestError for what isn't JSON or UTF-8, for NaN, Infinity and numbers so large that
    they would become it, for an integer of thousands of digits, for half of a surrogate pair, for
    more than `max_depth` objects and arrays within one another, and for a key that an object has
    twice: one of its values would be lost.
    """
    try:
        text = data.decode("utf-8") if isinstance(data, bytes) else data
    except UnicodeDecodeError as error:
        raise RequestError("The request is not UTF-8.", ("body", error.start)) from error
    _check_depth(text, max_depth)
    try:
        content = json.loads(
            text, object_pairs_hook=_unique, parse_constant=_no_constant, parse_float=_finite
        )
    except RequestError:  # from the hooks; it is a ValueError too
        raise
    except json.JSONDecodeError as error:
        raise RequestError(
            f"The request is not JSON: {error.msg} at line {error.lineno}, column {error.colno}.",
            ("body", error.pos),
        ) from error
    except RecursionError:  # `max_depth` is more than this interpreter's stack holds
        raise RequestError("The request is nested too deeply.") from None
    except ValueError as error:  # an integer of thousands of digits
        raise RequestError(f"The request holds a number that can't be read: {error}") from error
    if not text.isascii() or _HALF.search(text):
        _check_unicode(content)
    return content


def _check_depth(text: str, most: int) -> None:
    if text.count("{") + text.count("[") <= most:  # nearly always: nothing to look for
        return
    depth = 0
    for found in _NESTING.finditer(text):
        first = text[found.start()]
        if first in "{[":
            depth += 1
            if depth > most:
                raise RequestError(
                    f"The request is nested too deeply: more than {most} objects and arrays within "
                    "one another."
                )
        elif first != '"':
            depth -= 1


def _check_unicode(content: object) -> None:
    """Halves of pairs can't be written as UTF-8, so they are never echoed; whole pairs are one
    character by now."""
    pending: list[tuple[object, tuple[str | int, ...]]] = [(content, ("body",))]
    while pending:
        item, loc = pending.pop()
        if isinstance(item, str):
            if not _is_whole(item):
                raise RequestError("A string holds half of a surrogate pair.", loc)
        elif isinstance(item, Mapping):
            for key, inner in item.items():
                if not _is_whole(key):
                    raise RequestError(
                        f"The key {echo(repr(key))} holds half of a surrogate pair.", loc
                    )
                pending.append((inner, (*loc, key)))
        elif isinstance(item, list):
            pending.extend((inner, (*loc, index)) for index, inner in enumerate(item))


def _is_whole(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found: dict[str, object] = {}
    for key, value in pairs:
        if key in found:
            raise RequestError(f"An object in the request has the key {echo(repr(key))} twice.")
        found[key] = value
    return found


def _no_constant(constant: str) -> NoReturn:
    raise RequestError(f"The request holds {constant}, which JSON has no number for.")


def _finite(number: str) -> float:
    found = float(number)
    if math.isinf(found):
        raise RequestError(f"The request holds {echo(repr(number))}, which is no finite number.")
    return found
