"""Raw logits of labelled requests: one run of the model, from which every debiasing is had."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Literal, Protocol

import numpy as np

from readoff.bench.calibrate.rows import PAD, Rows, padded
from readoff.bench.records import Ask
from readoff.engine.answers import Decision
from readoff.engine.card_fields import Debias
from readoff.engine.debias import (
    CONTENT_FREE,
    ROTATIONS,
    Expansion,
    Logits,
    Questions,
    expand,
    fingerprint,
    merged_logits,
)
from readoff.engine.questions import Question
from readoff.engine.text import Text, render_text

BATCH = 16
"""Requests of one call."""


class Decider(Protocol):
    """What is needed of an engine: decisions with raw logits, no debiasing."""

    def decide_many(
        self, requests: Sequence[tuple[Text, Questions]], *, debias: Literal["none"]
    ) -> list[Decision]:
        """As `Engine.decide_many`."""


def collect(
    engine: Decider,
    asks: Sequence[Ask],
    modes: Sequence[Debias] = ("none",),
    *,
    rotations: int = ROTATIONS,
    tell: Callable[[int, int], None] = lambda done, total: None,
) -> dict[Debias, Rows]:
    """The rows of all labelled questions of `asks` under each of `modes`.

    `Rows.z` holds the logits less the content-free prior, where the mode has one: what a card's
    prior and temperature are then fitted to. `tell` is called with (requests done, of how many).
    Raises ReadoffError as the engine does.
    """
    strongest = _strongest(modes)
    expansions = [expand(_labelled(ask), strongest, rotations) for ask in asks]
    free: dict[str, Question] = {}
    if strongest in ("prior", "both"):
        free = {fingerprint(q): q for e in expansions for q in e.asked.values()}
    todo: list[tuple[Text, Questions]] = [
        *((CONTENT_FREE, {"q": question}) for question in free.values()),
        *((ask.state, e.asked) for ask, e in zip(asks, expansions, strict=True)),
    ]
    decisions: list[Decision] = []
    tell(0, len(todo))
    for start in range(0, len(todo), BATCH):
        decisions += engine.decide_many(todo[start : start + BATCH], debias="none")
        tell(len(decisions), len(todo))
    priors = {k: d["q"].logits for k, d in zip(free, decisions, strict=False)}
    found = decisions[len(free) :]
    return {mode: _rows(asks, expansions, found, priors, mode) for mode in modes}


def state_key(state: Text) -> str:
    """What two states share exactly if the model reads the same."""
    return json.dumps([isinstance(state, str), render_text(state)])


def _labelled(ask: Ask) -> Mapping[str, Question]:
    return {name: q for name, q in ask.questions.items() if name in ask.targets}


def _strongest(modes: Sequence[Debias]) -> Debias:
    prior = any(mode in ("prior", "both") for mode in modes)
    rotate = any(mode in ("rotate", "both") for mode in modes)
    return "both" if prior and rotate else "prior" if prior else "rotate" if rotate else "none"


def _rows(
    asks: Sequence[Ask],
    expansions: Sequence[Expansion],
    decisions: Sequence[Decision],
    priors: Mapping[str, Logits],
    mode: Debias,
) -> Rows:
    numbers: dict[str, int] = {}
    fields, types, options, z, target, weight, state = [], [], [], [], [], [], []
    for ask, expansion, decision in zip(asks, expansions, decisions, strict=True):
        number = numbers.setdefault(state_key(ask.state), len(numbers))
        logits = {key: answer.logits for key, answer in decision.items()}
        own = {
            key: priors[fingerprint(question)]
            for key, question in expansion.asked.items()
            if priors
        }
        for name, question in expansion.questions.items():
            raw, prior = merged_logits(expansion, name, logits, own, mode)
            fields.append(name)
            types.append(question.type)
            options.append(question.options)
            z.append((raw - prior).tolist())
            target.append([ask.targets[name].get(option, 0.0) for option in question.options])
            weight.append(ask.weight)
            state.append(number)
    return Rows(
        fields=tuple(fields),
        types=tuple(types),
        options=tuple(options),
        sizes=np.array([len(row) for row in z], np.int64),
        z=padded(z, PAD),
        target=padded(target, 0.0),
        weight=np.array(weight, np.float64),
        state=np.array(state, np.int64),
    )
