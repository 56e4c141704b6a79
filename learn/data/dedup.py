"""Messages that the evaluation sets have too, and messages that are there twice."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from readoff.bench.quality import bigbench, relevance
from readoff.learn.data.errors import DataError
from readoff.learn.data.messages import SPLITS, Message, Source, Split, normalised

NEAR = 0.8
"""Jaccard similarity of the sets of 5-letter runs from which on two messages count as one."""

_RUN = 5
_CHUNK = 512  # messages compared at a time: bounds the memory of their similarities
_MARKS = re.compile(
    r"(?:Utterance|Fact|Q|Sentence \d|Short Answer|Context|The answer is):|<-->|\n|(?<=[.?!])\s"
)


@dataclass
class Dropped:
    """How many messages were left out of one source, by reason."""

    twice: int = 0
    of_two_intents: int = 0
    in_another_split: int = 0
    in_evaluation: int = 0
    by_split: dict[str, int] = field(default_factory=dict)


def evaluation_texts(folder: Path) -> list[str]:
    """The texts of BIG-bench and Cranfield, whole and sentence by sentence.

    `folder` holds `bigbench/` and `cranfield/`. Raises QualityError, or DataError if there is no
    task: without them nobody could say that the evaluation is of unseen texts.
    """
    tasks = sorted((folder / "bigbench").glob("*.json"))
    if not tasks:
        raise DataError(
            f"{folder} has no bigbench/*.json, which the training data must not overlap with."
        )
    texts: set[str] = set()
    for file in tasks:
        for example in bigbench.examples(file, file.stem):
            texts |= {example.input, *_MARKS.split(example.input), *example.options}
    for item in relevance.cranfield(folder / "cranfield"):
        texts |= set(_strings(item.ask.state))
    return sorted(filter(None, map(str.strip, texts)))


def deduplicated(
    sources: Mapping[str, Source], evaluation: Sequence[str]
) -> tuple[dict[str, Source], dict[str, Dropped]]:
    """The sources without what is there twice or, exactly or nearly, in a split that counts more.

    Test counts more than valid, valid more than train, of all sources. Out of train and valid goes
    also what is like a text of `evaluation`, and from everywhere a message with two intents of one
    source. Raises DataError for a split that nothing is left of.
    """
    dropped = {name: Dropped() for name in sources}
    kept: dict[str, dict[Split, list[Message]]] = {name: {} for name in sources}
    counting_more: list[str] = []
    for split in reversed(SPLITS):
        for name, source in sources.items():
            found = dropped[name]
            messages = _once(source.splits[split], found)
            if split != "test":
                in_evaluation = near(messages, evaluation)
                in_split = near(messages, counting_more)
                found.in_evaluation += int(in_evaluation.sum())
                found.in_another_split += int((in_split & ~in_evaluation).sum())
                out = in_evaluation | in_split
                messages = [m for m, gone in zip(messages, out, strict=True) if not gone]
            kept[name][split] = messages
            found.by_split[split] = len(source.splits[split]) - len(messages)
        counting_more += [m.text for splits in kept.values() for m in splits[split]]
    left = {
        name: source.with_splits({split: kept[name][split] for split in SPLITS})
        for name, source in sources.items()
    }
    return left, dropped


def near(messages: Sequence[Message], texts: Sequence[str]) -> np.ndarray:
    """For each message whether some text has the same words or nearly the same runs of letters.

    Exact Jaccard similarity of sets of 5-letter runs, not an estimate of it by hashes. bool [M].
    """
    from sklearn.feature_extraction.text import CountVectorizer  # type: ignore[import-untyped]

    found = np.zeros(len(messages), dtype=bool)
    if not messages or not texts:
        return found
    words = {frozenset(normalised(text).split()) for text in texts}
    found |= [frozenset(message.key.split()) in words for message in messages]
    vectorizer = CountVectorizer(
        analyzer="char", ngram_range=(_RUN, _RUN), binary=True, dtype=np.int32
    )
    theirs = vectorizer.fit_transform(f"  {normalised(text)}  " for text in texts)
    # Runs that only the messages have count for the size of their sets, not for what is shared.
    ours = vectorizer.transform(f"  {message.key}  " for message in messages)
    sizes = np.array([len(_runs(f"  {message.key}  ")) for message in messages])  # [M]
    their_sizes = np.asarray(theirs.sum(axis=1)).ravel()  # [T]
    for start in range(0, len(messages), _CHUNK):
        shared = (ours[start : start + _CHUNK] @ theirs.T).tocoo()
        rows = shared.row + start
        union = sizes[rows] + their_sizes[shared.col] - shared.data
        found[rows[shared.data >= NEAR * union]] = True
    return found


def _runs(text: str) -> set[str]:
    return {text[i : i + _RUN] for i in range(len(text) - _RUN + 1)}


def _once(messages: Iterable[Message], dropped: Dropped) -> list[Message]:
    by_key: dict[str, list[Message]] = {}
    for message in messages:
        by_key.setdefault(message.key, []).append(message)
    found = []
    for same in by_key.values():
        if len({message.intent for message in same}) > 1:
            dropped.of_two_intents += len(same)
        else:
            dropped.twice += len(same) - 1
            found.append(same[0])
    return found


def _strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for inner in value.values():
            yield from _strings(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _strings(inner)
