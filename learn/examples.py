"""`Example`: a state, its questions, a soft target and a weight for each of them.

One line of a file: `{"state": …, "questions": {id: question}, "answers": {id: label}}`, as the
labelled format of `readoff bench` has it, and any of

    "weight"    0, or a number from 0.000001 to 1,000,000, or {id: number}; without it 1, and 0.5
                for rows whose source is "escalation", because a model labelled them
    "family"    what kind of decision it is, a name or {id: name}
    "language"  for example "en"
    "split"     "train", "valid" or "test"; rows of "test" are refused
    "group"     rows of one group are never split between training and validation; an error
                where their "split" says so
    "source"    where the row comes from; "escalation" is feedback (see `feedback`)
    "licence"   of the source; only kept in the file
    "x_…"       whatever you like

A label is an option's name, a level's index, true or false, or an object of probabilities by
option, which must sum to 1.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from readoff.bench.quality.jsonl import DEFAULT_WEIGHTS
from readoff.bench.quality.labels import parse_label, parse_weight
from readoff.engine.errors import RequestError
from readoff.engine.questions import Question
from readoff.engine.strict_json import loads
from readoff.engine.text import Text
from readoff.engine.wire import parse_request
from readoff.learn.errors import ExampleError

NO_FAMILY = "none"
"""The family of rows that name none."""
SPLITS = ("train", "valid", "test")
SUM_TOLERANCE = 1e-3
"""What rounding may take from a soft label; within it the label is divided by its sum."""
LEAST, MOST = 1e-6, 1e6
"""The bounds of a weight above zero: with others beside it, fp32 loses what is far outside."""

_FIELDS = {"state", "questions", "answers", "weight", "family", "language", "split", "group"}
_FIELDS |= {"source", "licence"}
_REQUEST = re.compile(r"^(The|A|An object in the) request\b")
_SHOWN = 60


@dataclass(frozen=True)
class Example:
    """One row. `targets` [options] each sum to 1, in the order of `Question.options`; `weights`
    and `families` have every question of `targets`. `where` names file and line."""

    state: Text
    questions: Mapping[str, Question]
    targets: Mapping[str, tuple[float, ...]]
    weights: Mapping[str, float]
    families: Mapping[str, str]
    where: str
    language: str | None = None
    split: str | None = None
    group: str | None = None
    source: str | None = None

    @property
    def weight(self) -> float:
        """The sum of the questions' weights."""
        return math.fsum(self.weights.values())


def read_examples(path: Path) -> Iterator[Example]:
    """The rows of a file, one at a time. Raises ExampleError, which names file and line."""
    try:
        with path.open("rb") as lines:
            yield from parse_lines(lines, str(path))
    except OSError as error:
        raise ExampleError(f"{path} can't be read: {error.strerror}.") from error


def parse_lines(lines: Iterable[bytes], name: str) -> Iterator[Example]:
    """The rows of `lines`, which errors say are those of `name`; raises as `read_examples`."""
    for number, line in enumerate(lines, 1):
        if line.strip():
            text = line.removeprefix(b"\xef\xbb\xbf").rstrip(b"\r\n")
            yield parse_example(text, f"{name}, line {number}")


def parse_example(line: bytes, where: str) -> Example:
    """One row. Raises ExampleError, which begins with `where`."""
    try:
        content = loads(line)
        request = parse_request(content)
    except RequestError as error:
        at = _short(".".join(part for part in error.loc[1:] if isinstance(part, str)))
        text = _REQUEST.sub(r"\1 row", str(error), count=1)  # rows are read as requests are
        raise ExampleError(f"{where}{f', {at}' if at else ''}: {text}") from error
    assert isinstance(content, Mapping)  # parse_request has seen to it
    try:
        return _example(content, request.state, request.questions, where)
    except ValueError as error:
        raise ExampleError(f"{where}: {error}.") from error


def _example(
    content: Mapping[str, object],
    state: Text,
    questions: Mapping[str, Question],
    where: str,
) -> Example:
    unknown = sorted(field for field in content.keys() - _FIELDS if not field.startswith("x_"))
    if unknown:
        name = _short(unknown[0])
        raise ValueError(f'there is no field "{name}" (names of your own start with x_)')
    source = _name(content, "source")
    split = _name(content, "split")
    if split is not None and split not in SPLITS:
        raise ValueError(f'the split is one of {", ".join(SPLITS)}, not "{_short(split)}"')
    default = DEFAULT_WEIGHTS.get(source or "", 1.0)
    given = content.get("weight", default)
    weights: dict[str, float] = {}
    for name, value in _by_question(given, questions, "weight", default).items():
        weights[name] = _weight(value, f'the weight of "{_short(name)}"')
    families: dict[str, str] = {}
    for name, value in _by_question(content.get("family"), questions, "family", None).items():
        families[name] = NO_FAMILY if value is None else _text(value, "family")
    return Example(
        state=state,
        questions=questions,
        targets=_targets(content.get("answers"), questions),
        weights=weights,
        families=families,
        where=where,
        language=_name(content, "language"),
        split=split,
        group=_name(content, "group"),
        source=source,
    )


def _targets(answers: object, questions: Mapping[str, Question]) -> dict[str, tuple[float, ...]]:
    if not isinstance(answers, Mapping):
        raise ValueError('the field "answers" must be an object of question ids and labels')
    if stray := [name for name in answers if name not in questions]:
        raise ValueError(f'the answer "{_short(stray[0])}" belongs to no question')
    targets = {}
    for name, question in questions.items():
        if name not in answers:
            raise ValueError(f'the question "{_short(name)}" has no answer')
        label = answers[name]
        try:
            target = parse_label(label, question)
            if isinstance(label, Mapping):
                _check_sum(label)
        except ValueError as error:
            raise ValueError(f'the answer "{_short(name)}": {error}') from error
        targets[name] = tuple(target.get(option, 0.0) for option in question.options)
    return targets


def _weight(value: object, what: str) -> float:
    weight = parse_weight(value, what)
    if weight > 0.0 and not LEAST <= weight <= MOST:
        raise ValueError(f"{what} must be 0 or from {LEAST:f} to {MOST:,.0f}, and it is {weight}")
    return weight


def _check_sum(label: Mapping[str, object]) -> None:
    """`parse_label` has seen that the values are numbers, and divides by any sum."""
    total = math.fsum(float(value) for value in label.values())  # type: ignore[arg-type]
    if not abs(total - 1.0) <= SUM_TOLERANCE:
        raise ValueError(f"the probabilities sum to {total:g}, and must sum to 1")


def _by_question(
    given: object, questions: Mapping[str, Question], what: str, default: object
) -> dict[str, object]:
    """One value a question: those of an object by question id, or the same for all."""
    if not isinstance(given, Mapping):
        return dict.fromkeys(questions, given)
    if stray := [name for name in given if name not in questions]:
        raise ValueError(f'the {what} of "{_short(stray[0])}" belongs to no question')
    return {name: given.get(name, default) for name in questions}


def _name(content: Mapping[str, object], field: str) -> str | None:
    value = content.get(field)
    return None if value is None else _text(value, field)


def _text(value: object, field: str) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"the {field} must be a name, not {_short(repr(value))}")
    return value


def _short(text: str) -> str:
    """Its beginning: errors stand in logs, and fields may hold anything."""
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"
