"""Raw logits of labelled requests: one run of the model, from which every debiasing is had."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Literal, Protocol

import numpy as np

from readoff.bench.bootstrap import Floats
from readoff.bench.calibrate.rows import PAD, Rows, padded
from readoff.bench.records import Ask, state_numbers
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
from readoff.engine.text import Text

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
    z = []
    for expansion, decision in zip(expansions, decisions, strict=True):
        logits = {key: answer.logits for key, answer in decision.items()}
        own = {
            key: priors[fingerprint(question)]
            for key, question in expansion.asked.items()
            if priors
        }
        for name in expansion.questions:
            raw, prior = merged_logits(expansion, name, logits, own, mode)
            z.append((raw - prior).tolist())
    return labelled_rows(asks, padded(z, PAD))


def labelled_rows(asks: Sequence[Ask], z: Floats | None = None) -> Rows:
    """The rows of all labelled questions of `asks`, with logits `z` [N, L], or zeros.

    Weights are shares of the largest, so that no sum of them overflows.
    """
    fields, types, options, target, weight, state = [], [], [], [], [], []
    for ask, number in zip(asks, state_numbers(asks), strict=True):
        for name, question in _labelled(ask).items():
            fields.append(name)
            types.append(question.type)
            options.append(question.options)
            target.append([ask.targets[name].get(option, 0.0) for option in question.options])
            weight.append(ask.weight)
            state.append(number)
    return Rows(
        fields=tuple(fields),
        types=tuple(types),
        options=tuple(options),
        sizes=np.array([len(row) for row in target], np.int64),
        z=padded([[0.0] * len(row) for row in target], PAD) if z is None else z,
        target=padded(target, 0.0),
        weight=np.array(weight, np.float64) / max(weight, default=1.0),
        state=np.array(state, np.int64),
    )


def relabelled(kept: Rows, asks: Sequence[Ask]) -> Rows | None:
    """The rows of `asks` with the logits of `kept`; None if those answer other questions."""
    rows = labelled_rows(asks)
    asked = (rows.fields, rows.types, rows.options) == (kept.fields, kept.types, kept.options)
    if not asked or kept.z.shape != rows.z.shape or not np.array_equal(kept.sizes, rows.sizes):
        return None
    z = kept.z.astype(np.float64)
    sound = np.isfinite(z).all() and np.array_equal(z == PAD, rows.z == PAD)
    return replace(rows, z=z) if sound else None
