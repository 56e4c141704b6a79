"""What an exported graph's narrower numbers cost on labelled decisions: figures for its card."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from readoff.bench.quality.jsonl import read_jsonl
from readoff.bench.records import Ask
from readoff.export.onnx_export import Subject
from readoff.export.parity import Answer, check
from readoff.export.probes import Probe, question_probes

_TOKENS = 16_384
"""So many tokens are compared at a time: keys and values of all layers are held for them."""


def read_labelled(path: Path) -> list[Ask]:
    """The decisions of a file. Raises QualityError."""
    return list(read_jsonl(path))


def figures_of(subject: Subject, data: Mapping[str, Sequence[Ask]]) -> dict[str, Any]:
    """For each of `data`, by name: how often the graph answers like the model in fp32, how far its
    probabilities are from the model's, and how often each is right. JSON values.

    Requests longer than the model's context are left out and counted.
    """
    return {name: _figures(subject, asks) for name, asks in data.items()}


def _figures(subject: Subject, asks: Sequence[Ask]) -> dict[str, Any]:
    limit = subject.checkpoint.config.max_position_embeddings
    pairs: list[tuple[Ask, list[Probe]]] = []
    for ask in asks:
        probes = question_probes(subject.renderer, subject.card, ask.state, ask.questions)
        if max(map(len, probes)) <= limit:
            pairs.append((ask, probes))
    answers: list[Answer] = []
    for some in _grouped([probe for _, probes in pairs for probe in probes]):
        answers += check(subject.checkpoint, subject.session, some).answers
    targets = [
        [ask.targets[name].get(option, 0.0) for option in question.options]
        for ask, _ in pairs
        for name, question in ask.questions.items()
    ]
    found: dict[str, Any] = {"decisions": len(answers)}
    if answers:
        apart = [answer.probability for answer in answers]
        rows = list(zip(answers, targets, strict=True))
        found |= {
            "same answer": _share(answer.same for answer in answers),
            "mean |Δp|": float(np.mean(apart)),
            "p99 |Δp|": float(np.quantile(apart, 0.99)),
            "max |Δp|": max(apart),
            "accuracy": _share(_right(answer.found[1], target) for answer, target in rows),
            "accuracy of the model": _share(
                _right(answer.expected[1], target) for answer, target in rows
            ),
        }
    left_out = len(asks) - len(pairs)
    return found | ({"requests too long": left_out} if left_out else {})


def _grouped(probes: Sequence[Probe]) -> Iterator[list[Probe]]:
    """The probes in order, as many together as `_TOKENS` lets."""
    group: list[Probe] = []
    size = 0
    for probe in probes:
        tokens = len(probe.past) + sum(len(row.tokens) for row in probe.rows)
        if group and size + tokens > _TOKENS:
            yield group
            group, size = [], 0
        group.append(probe)
        size += tokens
    if group:
        yield group


def _right(shares: np.ndarray[Any, Any], target: Sequence[float]) -> bool:
    """Whether the most probable option is one of those with the most weight."""
    return target[int(shares.argmax())] == max(target)


def _share(hits: Iterator[bool]) -> float:
    return float(np.mean(list(hits)))
