"""Labelled decisions as JSON lines.

One line: `{"state": …, "questions": {id: question}, "answers": {id: label}, "weight": 1.0}`.
Questions are those of the wire contract; a label is an option's name, a level's index, true or
false, or an object that gives labels weights. `weight` may be left out: it is 1 then, and 0.5 where
"source" is "escalation". Training rows (`readoff.learn.examples`) are read too: their weights by
question, `{id: number}`, make one line several decisions about a state; what else they say is
passed over.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from readoff.bench.quality.files import QualityError
from readoff.bench.quality.labels import normalised, parse_label, parse_weight, render_label
from readoff.bench.records import Ask, Target
from readoff.engine.errors import RequestError
from readoff.engine.questions import Question
from readoff.engine.strict_json import loads
from readoff.engine.wire import dumps, parse_request

ESCALATION = "escalation"
"""The source of rows that a slow system labelled because the gate turned them away."""
DEFAULT_WEIGHTS: Mapping[str, float] = {ESCALATION: 0.5}
"""By source; every other source weighs 1."""

_FIELDS = {"state", "questions", "answers", "weight"}
_OF_ROWS = {"family", "language", "split", "group", "source", "licence"}


def read_jsonl(path: str | Path) -> Iterator[Ask]:
    """The decisions of a file, one at a time. Blank lines are passed over.

    Raises QualityError, which names the file, the line and what is wrong with it; at the end too
    if there was no decision at all or none of a weight above zero.
    """
    try:
        with Path(path).open("rb") as lines:
            yield from read_lines(lines, str(path))
    except OSError as error:
        raise QualityError(f"{path} can't be read: {error.strerror}.") from error


def read_lines(lines: Iterable[bytes], name: str) -> Iterator[Ask]:
    """The decisions of `lines`, which errors say are those of `name`; raises as `read_jsonl`."""
    total = 0.0
    for number, line in enumerate(lines, 1):
        if line.strip():
            text = line.removeprefix(b"\xef\xbb\xbf").rstrip(b"\r\n")
            for ask in _parse(text, f"{name}, line {number}"):
                total += ask.weight
                yield ask
    if total == 0.0:
        raise QualityError(f"{name} holds no decision with a weight above zero.")


def write_jsonl(path: str | Path, asks: Iterable[Ask]) -> int:
    """Write decisions, replacing the file only when all are written. Returns how many.

    Raises QualityError for a decision without answers and where the file can't be written.
    """
    file = Path(path)
    draft = file.with_name(f".{file.name}.{os.getpid()}")
    count = 0
    try:
        with draft.open("w", encoding="utf-8", newline="\n") as out:
            for count, ask in enumerate(asks, 1):
                out.write(_render(ask, f"{path}, line {count}") + "\n")
        os.replace(draft, file)
    except OSError as error:
        raise QualityError(f"{path} can't be written: {error.strerror}.") from error
    finally:
        draft.unlink(missing_ok=True)
    return count


def _parse(line: bytes, where: str) -> list[Ask]:
    """One for each weight among the questions."""
    try:
        content = loads(line)
        request = parse_request(content)
    except RequestError as error:
        # A place in the line's JSON, or an offset in bytes that would only mislead.
        at = ".".join(part for part in error.loc[1:] if isinstance(part, str))
        raise QualityError(f"{where}{f', {at}' if at else ''}: {_plain(error)}") from error
    assert isinstance(content, Mapping)  # parse_request has seen to it
    try:
        targets = _targets(content, request.questions)
        found: dict[float, list[str]] = {}
        source = content.get("source")
        default = DEFAULT_WEIGHTS.get(source, 1.0) if isinstance(source, str) else 1.0
        given = content.get("weight", default)
        for name, weight in _weights(given, request.questions, default).items():
            found.setdefault(weight, []).append(name)
        return [
            Ask(
                state=request.state,
                questions={name: request.questions[name] for name in names},
                targets={name: targets[name] for name in names},
                weight=weight,
            )
            for weight, names in found.items()
        ]
    except ValueError as error:
        raise QualityError(f"{where}: {error}.") from error


def _weights(given: object, questions: Mapping[str, Question], default: float) -> dict[str, float]:
    if not isinstance(given, Mapping):
        return dict.fromkeys(questions, parse_weight(given, "the weight"))
    if stray := [name for name in given if name not in questions]:
        raise ValueError(f'the weight of "{stray[0]}" belongs to no question')
    return {
        name: parse_weight(given.get(name, default), f'the weight of "{name}"')
        for name in questions
    }


def _targets(content: Mapping[str, object], questions: Mapping[str, Question]) -> dict[str, Target]:
    others = content.keys() - _FIELDS - _OF_ROWS
    unknown = sorted(field for field in others if not field.startswith("x_"))
    if unknown:
        raise ValueError(f'there is no field "{unknown[0]}" (names of your own start with x_)')
    answers = content.get("answers")
    if not isinstance(answers, Mapping):
        raise ValueError('the field "answers" must be an object of question ids and labels')
    for name in answers:
        if name not in questions:
            raise ValueError(f'the answer "{name}" belongs to no question')
    targets: dict[str, Target] = {}
    for name, question in questions.items():
        if name not in answers:
            raise ValueError(f'the question "{name}" has no answer')
        try:
            targets[name] = parse_label(answers[name], question)
        except ValueError as error:
            raise ValueError(f'the answer "{name}": {error}') from error
    return targets


def _render(ask: Ask, where: str) -> str:
    answers = {}
    for name, question in ask.questions.items():
        if name not in ask.targets:
            raise QualityError(f'{where}: the question "{name}" has no answer.')
        try:
            target = normalised(ask.targets[name], question)
        except ValueError as error:
            raise QualityError(f'{where}: the answer "{name}": {error}.') from error
        answers[name] = render_label(target, question)
    content: dict[str, object] = {
        "state": ask.state,
        "questions": {name: _question(question) for name, question in ask.questions.items()},
        "answers": answers,
    }
    if ask.weight != 1.0:
        content["weight"] = ask.weight
    return dumps(content)


def _question(question: Question) -> dict[str, object]:
    fields = {"instructions": question.instructions, "criteria": question.criteria}
    return {"type": question.type, **{k: v for k, v in fields.items() if v is not None}}


def _plain(error: RequestError) -> str:
    text = str(error).replace(" at line 1, column", " at column")  # the line of the file is told
    for article in ("The", "A", "the"):
        text = text.replace(f"{article} request", f"{article} line")
    return text
