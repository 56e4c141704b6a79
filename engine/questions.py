"""The three kinds of question: Choice, Score and Noul.

The argument names are those of the ecosystem's client. A question is checked when it is made and
keeps its own copy of the criteria's outer container, so that a legal question stays legal.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, TypeAlias, cast

from readoff.engine.echo import echo
from readoff.engine.errors import QuestionError
from readoff.engine.text import Text, check_text, check_unicode, is_array, render_text

QuestionType: TypeAlias = Literal["choice", "score", "noul"]

MAX_OPTIONS = 255
MAX_LEVELS = 10
NOUL_OPTIONS = ("true", "false")


@dataclass(frozen=True, kw_only=True)
class Choice:
    """One of 2..255 named options.

    `criteria` maps each option's name to a description of when it applies, or None where the name
    says enough. The order of the options is the order in which the model reads them.
    """

    instructions: Text | None = None
    criteria: Mapping[str, Text | None]
    type: ClassVar[Literal["choice"]] = "choice"

    def __post_init__(self) -> None:
        _check_instructions(self.instructions)
        if not isinstance(self.criteria, Mapping):
            raise QuestionError(
                "A choice's criteria must be an object of option names and descriptions, "
                f"not {_kind(self.criteria)}."
            )
        if not 2 <= len(self.criteria) <= MAX_OPTIONS:
            raise QuestionError(
                f"A choice takes 2 to {MAX_OPTIONS} options, and this one has {len(self.criteria)}."
            )
        for name, description in self.criteria.items():
            if not isinstance(name, str) or not name.strip():
                raise QuestionError(
                    f"The option name {echo(repr(name))} is empty; every option needs one."
                )
            check_unicode(name, f"The option name {echo(repr(name))}")
            if description is not None:
                check_text(description, f"The description of option {echo(repr(name))}")
        object.__setattr__(self, "criteria", dict(self.criteria))

    @property
    def options(self) -> tuple[str, ...]:
        """The option names, in the order given."""
        return tuple(self.criteria)


@dataclass(frozen=True, kw_only=True)
class Score:
    """A rating on 2..10 levels, described from the lowest (level 0) to the highest."""

    instructions: Text | None = None
    criteria: Sequence[Text]
    type: ClassVar[Literal["score"]] = "score"

    def __post_init__(self) -> None:
        _check_instructions(self.instructions)
        if not is_array(self.criteria):
            raise QuestionError(
                "A score's criteria must be an array of level descriptions, lowest first, "
                f"not {_kind(self.criteria)}."
            )
        if not 2 <= len(self.criteria) <= MAX_LEVELS:
            raise QuestionError(
                f"A score takes 2 to {MAX_LEVELS} levels, and this one has {len(self.criteria)}."
            )
        seen: dict[str, int] = {}
        for index, level in enumerate(self.criteria):
            text = render_text(check_text(level, f"The description of level {index}"))
            if not text.strip():
                raise QuestionError(f"The description of level {index} is empty.")
            if text in seen:
                raise QuestionError(
                    f"Levels {seen[text]} and {index} have the same description "
                    f"{echo(repr(text))}; the model couldn't tell them apart."
                )
            seen[text] = index
        object.__setattr__(self, "criteria", tuple(self.criteria))

    @property
    def options(self) -> tuple[str, ...]:
        """The levels as strings: "0", "1", …"""
        return tuple(str(level) for level in range(len(self.criteria)))


@dataclass(frozen=True, kw_only=True)
class Noul:
    """The probability that a statement is true, or that a yes/no question is answered yes.

    `criteria` may say what counts as true, as false, as both, or nothing.
    """

    instructions: Text | None = None
    criteria: Mapping[str, Text | None] | None = None
    type: ClassVar[Literal["noul"]] = "noul"

    def __post_init__(self) -> None:
        _check_instructions(self.instructions)
        if self.criteria is None:
            return
        if not isinstance(self.criteria, Mapping):
            raise QuestionError(
                'A noul\'s criteria must be an object with "true" and/or "false", '
                f"not {_kind(self.criteria)}."
            )
        for key, description in self.criteria.items():
            if key not in NOUL_OPTIONS:
                raise QuestionError(
                    f'A noul\'s criteria are "true" and "false"; {echo(repr(key))} is neither.'
                )
            if description is not None:
                check_text(description, f"The description of {echo(repr(key))}")
        object.__setattr__(self, "criteria", dict(self.criteria))

    @property
    def options(self) -> tuple[str, ...]:
        """Always ("true", "false")."""
        return NOUL_OPTIONS


Question: TypeAlias = Choice | Score | Noul


def check_questions(questions: object) -> Mapping[str, Question]:
    """Return `questions` unchanged if it maps non-empty ids to questions, else QuestionError."""
    if not isinstance(questions, Mapping):
        raise QuestionError(f"Questions must map ids to questions, not be {_kind(questions)}.")
    if not questions:
        raise QuestionError("There is no question; ask at least one.")
    for name, question in questions.items():
        if not isinstance(name, str) or not name:
            raise QuestionError(f"The question id {echo(repr(name))} is not a non-empty string.")
        if not isinstance(question, Choice | Score | Noul):
            raise QuestionError(
                f"Question {echo(repr(name))} must be a Choice, Score or Noul, "
                f"not {_kind(question)}."
            )
    return cast(Mapping[str, Question], questions)


def _check_instructions(instructions: object) -> None:
    if instructions is not None:
        check_text(instructions, "The instructions")


def _kind(value: object) -> str:
    return "null" if value is None else type(value).__name__
