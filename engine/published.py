"""Reads `calibration.json` and `label_space.json`, as published checkpoints lay them out.

The two files are older than the decision card and were never specified, so common spellings are
understood: kinds in any case, temperatures as numbers at the top or below "temperature" or
"temperatures", labels as arrays or as objects. What isn't understood is an error, never skipped:
a misspelt kind would leave a fitted value unused.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from readoff.engine.card_fields import TYPES
from readoff.engine.errors import CardError

_WRAPPERS = {
    "calibration.json": ("temperature", "temperatures"),
    "label_space.json": ("labels", "label_space"),
}
_METADATA = {"ece", "nll", "fitted_on"}  # how well a temperature fits, never what it is
_INSTEAD = 'Write a decision card ("decision.json") with its values instead.'
_FALSE = {"false", "no"}


def published_temperatures(content: Mapping[str, object]) -> dict[str, Any]:
    """Temperatures by question type, as they stand; a card checks their values."""
    found = _by_type(content, "calibration.json")
    return {kind: _only(v) if isinstance(v, Mapping) else v for kind, v in found.items()}


def published_labels(content: Mapping[str, object]) -> dict[str, object]:
    """Labels by question type, in the form of a card's "labels"."""
    found = _by_type(content, "label_space.json")
    return {kind: _labels(kind, value) for kind, value in found.items()}


def _by_type(content: Mapping[str, object], file: str) -> dict[str, object]:
    inner = content
    wrapper = next((w for w in _WRAPPERS[file] if isinstance(content.get(w), Mapping)), None)
    if wrapper is not None:
        inner = content[wrapper]  # type: ignore[assignment]
        _refuse_others(content, {wrapper}, file)
    found: dict[str, object] = {}
    for key, value in inner.items():
        kind = key.lower()
        if kind in TYPES:
            if kind in found:
                raise CardError(f"{file} names {kind} twice.")
            found[kind] = value
    if not found:
        raise CardError(f"{file} names none of Choice, Score and Noul. {_INSTEAD}")
    _refuse_others(inner, {key for key in inner if key.lower() in TYPES}, file)
    return found


def _refuse_others(content: Mapping[str, object], known: set[str], file: str) -> None:
    others = sorted(content.keys() - known - _METADATA)
    if others:
        raise CardError(f'{file} has an entry "{others[0]}" that isn\'t understood. {_INSTEAD}')


def _only(value: Mapping[str, object]) -> object:
    for name in (*_WRAPPERS["calibration.json"], "T"):
        if name in value:
            _refuse_others(value, {name}, "calibration.json")
            return value[name]
    raise CardError(f"calibration.json has an entry without a temperature: {dict(value)!r}.")


def _labels(kind: str, value: object) -> object:
    """An array or a range as it is; an object's texts, or its keys where it maps to token ids.

    A noul's label for true comes first, whatever order the file has.
    """
    if isinstance(value, Mapping):
        pairs = [(key, text if isinstance(text, str) else key) for key, text in value.items()]
    elif isinstance(value, list):
        pairs = [(str(text), text) for text in value]
    else:
        return value
    if kind == "noul":
        pairs.sort(key=lambda pair: pair[0].lower() in _FALSE)
    return [text for _, text in pairs]
