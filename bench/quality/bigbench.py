"""BIG-bench task files: their examples, checked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from readoff.bench.quality.files import QualityError, locate, read_object


@dataclass(frozen=True)
class Example:
    """One example: its input, its options in the order given, and the only right one."""

    input: str
    options: tuple[str, ...]
    answer: str

    def split(self, *marks: str) -> list[str]:
        """The parts of the input between `marks`, each of which is there in this order.

        Raises ValueError if one is missing.
        """
        parts, rest = [], self.input
        for mark in marks:
            before, found, rest = rest.partition(mark)
            if not found:
                raise ValueError(f"an example has no {mark.strip()!r}: {self.input[:60]!r}")
            parts.append(before.strip())
        return [*parts, rest.strip()]


def examples(path: str | Path, task: str) -> Iterator[Example]:
    """The examples of `task`, whose file or folder is `path`. Raises QualityError."""
    file = locate(path, (f"{task}.json", f"bigbench/{task}.json"))
    content = read_object(file)
    if content.get("name") != task:
        raise QualityError(f"{file} is not the BIG-bench task {task}.")
    entries = content.get("examples")
    if not isinstance(entries, list) or not entries:
        raise QualityError(f"{file} has no examples.")
    for number, entry in enumerate(entries, 1):
        yield _example(entry, f"{file}, example {number}")


def _example(entry: object, where: str) -> Example:
    if not isinstance(entry, Mapping):
        raise QualityError(f"{where} is not an object.")
    text, scores = entry.get("input"), entry.get("target_scores")
    if not isinstance(text, str) or not isinstance(scores, Mapping):
        raise QualityError(f'{where} has no "input" or no "target_scores".')
    right = [option for option, score in scores.items() if score == 1]
    if len(right) != 1 or len(scores) < 2:
        raise QualityError(f"{where} doesn't have exactly one right option of several.")
    return Example(text, tuple(scores), right[0])
