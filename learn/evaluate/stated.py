"""JSON answers with the confidence that they state, written once and kept in a file."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from readoff.bench.calibrate.data import requests_digest
from readoff.bench.json_answer import messages
from readoff.bench.records import Ask, Given
from readoff.engine.chat import ChatTemplate
from readoff.learn.evaluate.crowd import MAX_NEW_TOKENS, CrowdJson
from readoff.learn.evaluate.errors import EvaluationError
from readoff.learn.evaluate.subject import Subject

LINES = 16
"""Answers written in lockstep at most."""
TOKENS = 6000
"""Tokens of the prompts that are read in one pass at most; a longer request goes alone."""

_VERSION = 1
Tell = Callable[[int, int], None]
Batch = tuple[int, ...]


def json_answers(
    subject: Subject,
    asks: Sequence[Ask],
    folder: Path,
    *,
    tell: Tell = lambda done, total: None,
) -> list[Mapping[str, Given]]:
    """The JSON answers of `subject` to all questions of `asks`, in their order.

    What a file in `folder` holds is read from it; what is missing is written to it batch by batch.
    The batches depend on `asks` alone, so an interrupted run goes on as it would have. Raises
    EvaluationError where the file can't be written, UnavailableError without xgrammar.
    """
    path = folder / f"json-{_digest(subject, asks)}.jsonl"
    found = _read(path)
    batches = _batches(subject, asks)
    writer: CrowdJson | None = None
    done = 0
    tell(0, len(asks))
    for number, batch in enumerate(batches):
        some = [asks[i] for i in batch]
        if not _answers(found.get(number), some):
            if writer is None:
                writer = CrowdJson(subject.engine, asks)
            found[number] = writer.write(some)
            _append(path, number, found[number])
        done += len(batch)
        tell(done, len(asks))
    given: list[Mapping[str, Given]] = [{}] * len(asks)
    for number, batch in enumerate(batches):
        for i, answers in zip(batch, found[number], strict=True):
            given[i] = answers
    return given


def _digest(subject: Subject, asks: Sequence[Ask]) -> str:
    of = [_VERSION, MAX_NEW_TOKENS, LINES, TOKENS, subject.key, requests_digest(asks)]
    return hashlib.sha256(json.dumps(of, sort_keys=True).encode()).hexdigest()[:16]


def _batches(subject: Subject, asks: Sequence[Ask]) -> list[Batch]:
    """Numbers of asks, those of like lengths together."""
    tokenizer = subject.renderer.tokenizer
    chat = ChatTemplate.of(tokenizer)
    lengths = [
        sum(
            len(tokenizer.encode_control(chat.render(messages(ask.state, question))))
            for question in ask.questions.values()
        )
        for ask in asks
    ]
    made: list[Batch] = []
    batch: list[int] = []
    tokens = lines = 0
    for i in sorted(range(len(asks)), key=lambda i: (lengths[i], i)):
        count = len(asks[i].questions)
        if batch and (tokens + lengths[i] > TOKENS or lines + count > LINES):
            made.append(tuple(batch))
            batch, tokens, lines = [], 0, 0
        batch.append(i)
        tokens, lines = tokens + lengths[i], lines + count
    return [*made, tuple(batch)] if batch else made


def _append(path: Path, number: int, answers: Sequence[Mapping[str, Given]]) -> None:
    rows = [{name: asdict(given) for name, given in one.items()} for one in answers]
    line = json.dumps({"batch": number, "answers": rows}, ensure_ascii=True, allow_nan=False)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a", encoding="ascii") as out:
            out.write(f"{line}\n")
    except OSError as error:
        raise EvaluationError(
            f"{path} can't be written ({error.strerror or error}). Make room there, or name "
            "another folder with --out."
        ) from error


def _read(path: Path) -> dict[int, list[dict[str, Given]]]:
    """By batch. A line that was cut off, as a run that was killed leaves it, counts as missing."""
    found: dict[int, list[dict[str, Given]]] = {}
    if not path.exists():
        return found
    text = path.read_text(encoding="ascii", errors="replace")
    if text and not text.endswith("\n"):  # the next line must not be glued to it
        whole = text[: text.rfind("\n") + 1]
        path.write_text(whole, encoding="ascii", errors="replace")
        text = whole
    for line in text.splitlines():
        try:
            row: Any = json.loads(line)
            found[int(row["batch"])] = [
                {name: Given(**given) for name, given in one.items()} for one in row["answers"]
            ]
        except (ValueError, TypeError, KeyError, AttributeError):
            continue
    return found


def _answers(kept: Sequence[Mapping[str, Given]] | None, asks: Sequence[Ask]) -> bool:
    """Whether what was kept answers just these."""
    return kept is not None and [set(one) for one in kept] == [set(a.questions) for a in asks]
