"""The entries of a decision card, each checked when it is made. Errors are CardErrors."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from readoff.engine.calibration import check_temperature
from readoff.engine.errors import CardError, QuestionError
from readoff.engine.questions import QuestionType

TYPES: tuple[QuestionType, ...] = ("choice", "score", "noul")
Debias: TypeAlias = Literal["none", "prior", "rotate", "both"]
DEBIAS: tuple[Debias, ...] = ("none", "prior", "rotate", "both")
"""The ways of debiasing without labels; `debias.py` says what each does."""

ROTATIONS = 4
"""Orders that a Choice is asked in where it is rotated, or as many as it has options."""

_BUCKET = re.compile(r"(choice|score|noul):([1-9]\d*)(?:-([1-9]\d*))?", re.ASCII)


@dataclass(frozen=True)
class CardTemplate:
    """Which template the card was made with; `digest` None means that any version will do."""

    id: str = "default"
    digest: str | None = None
    order: str = "state-first"

    def __post_init__(self) -> None:
        if self.order not in ("state-first", "question-first"):
            raise CardError(
                'The card\'s template order is "state-first" or "question-first", '
                f"not {self.order!r}."
            )


@dataclass(frozen=True)
class Temperature:
    """Temperatures by question type, refined by field or by number of options.

    A field is a question's id. The keys of `by_options` are "choice:7" or, for a range,
    "choice:27-255".
    """

    choice: float = 1.0
    score: float = 1.0
    noul: float = 1.0
    by_field: Mapping[str, float] = field(default_factory=dict)
    by_options: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for kind in TYPES:
            value = check_temperature(getattr(self, kind), f"The card's {kind} temperature")
            object.__setattr__(self, kind, value)
        for name in ("by_field", "by_options"):
            table = _table(getattr(self, name), f"temperature.{name}")
            checked = {k: check_temperature(v, f'The temperature of "{k}"') for k, v in table}
            object.__setattr__(self, name, checked)
        for key in self.by_options:
            bucket(key)

    def find(self, kind: str, name: str | None, n_options: int) -> float:
        """The temperature of the field, else of the narrowest fitting size, else of the type."""
        if name is not None and name in self.by_field:
            return self.by_field[name]
        fitting = []
        for key, value in self.by_options.items():
            of, low, high = bucket(key)
            if of == kind and low <= n_options <= high:
                fitting.append((high - low, value))
        if fitting:
            return min(fitting)[1]
        return {"choice": self.choice, "score": self.score, "noul": self.noul}[kind]


@dataclass(frozen=True)
class Prior:
    """Priors in raw logits, one number an option, by field or by exact number of options."""

    by_field: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    by_options: Mapping[str, tuple[float, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("by_field", "by_options"):
            table = _table(getattr(self, name), f"prior.{name}")
            object.__setattr__(self, name, {key: _numbers(value, key) for key, value in table})
        for key, values in self.by_options.items():
            _, low, high = bucket(key)
            if not low == high == len(values):
                raise CardError(f'The prior of "{key}" holds {len(values)} numbers.')

    def find(self, kind: str, name: str | None, n_options: int) -> tuple[float, ...]:
        """The prior of the field, else of the size, else zeros. Length `n_options`.

        Raises QuestionError where a question has the name of a field that was fitted with another
        number of options.
        """
        found = self.by_options.get(f"{kind}:{n_options}", (0.0,) * n_options)
        if name is not None and name in self.by_field:
            found = self.by_field[name]
        if len(found) != n_options:
            raise QuestionError(
                f'The card\'s prior of "{name}" is for {len(found)} options, and the question '
                f"has {n_options}. Rename the question, or fit the card again."
            )
        return found


@dataclass(frozen=True)
class Digests:
    """sha256 digests of what the card belongs to; None where it doesn't say."""

    weights: str | None = None
    adapter: str | None = None
    tokenizer: str | None = None


def check_debias(value: object, what: str = "debias") -> Debias:
    """Return `value` if it is one of `DEBIAS`, else CardError."""
    for mode in DEBIAS:
        if value == mode:
            return mode
    known = ", ".join(f'"{name}"' for name in DEBIAS)
    raise CardError(f"{what} must be one of {known}, not {value!r}.")


def check_rotations(value: object, what: str = "rotations") -> int:
    """Return `value` if it is a number of rotations, 1 or more, else CardError."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise CardError(f"{what} must be 1 or more, not {value!r}.")
    return value


def bucket(key: str) -> tuple[str, int, int]:
    """(type, fewest, most options) of a key such as "choice:7" or "choice:27-255"."""
    match = _BUCKET.fullmatch(key)
    if match is None or int(match[3] or match[2]) < int(match[2]):
        raise CardError(f'"{key}" names no number of options; write "choice:7".')
    return match[1], int(match[2]), int(match[3] or match[2])


def _table(value: object, name: str) -> list[tuple[str, object]]:
    if not isinstance(value, Mapping):
        raise CardError(f'The card\'s "{name}" must be an object, not {value!r}.')
    return list(value.items())


def _numbers(value: object, key: str) -> tuple[float, ...]:
    if not isinstance(value, list | tuple):
        raise CardError(f'The prior of "{key}" must be an array of numbers, not {value!r}.')
    for number in value:
        real = isinstance(number, int | float) and not isinstance(number, bool)
        if not real or abs(number) > 1e30 or math.isnan(number):
            raise CardError(f'The prior of "{key}" holds {number!r}, which is no usable number.')
    return tuple(float(number) for number in value)
