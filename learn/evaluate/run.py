"""A whole evaluation: models asked, everything else computed from what they said."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from readoff.bench.calibrate.cache import load_rows
from readoff.bench.calibrate.collect import relabelled
from readoff.bench.calibrate.fit import calibrated
from readoff.bench.calibrate.rows import Rows
from readoff.bench.calibrate.table import Planned, rows_path
from readoff.bench.calibrate.temperature import fit_temperatures
from readoff.engine.card_fields import Debias, Prior, Temperature
from readoff.learn.evaluate.bigbench import task_decisions, tasks
from readoff.learn.evaluate.chosen import Chosen, Tell
from readoff.learn.evaluate.contender import (
    CALIBRATED,
    DEBIASED,
    JSON,
    TRAINED,
    ZERO_SHOT,
    Contender,
    in_order,
    readout,
    stated,
)
from readoff.learn.evaluate.decisions import (
    Decisions,
    check_apart,
    joined,
    only,
    read_decisions,
    sample,
)
from readoff.learn.evaluate.document import Temperatures, document
from readoff.learn.evaluate.errors import EvaluationError
from readoff.learn.evaluate.logits import kept_rows, modes_for
from readoff.learn.evaluate.scope import TEST, UNSEEN, Scope
from readoff.learn.evaluate.stated import json_answers
from readoff.learn.evaluate.subject import Subject

_TABLED = ("bfloat16",)
"""What the tables of docs/calibration.md were computed in; their logits don't name it."""


@dataclass(frozen=True)
class _Heard:
    """Decisions with what the base said about them: rows by mode, and its JSON's contender."""

    name: str
    decisions: Decisions
    parts: Sequence[tuple[Planned | None, Decisions]]
    zero: Rows
    debiased: Rows
    json: Contender | None


def evaluate(chosen: Chosen, tell: Tell = lambda what, done, total: None) -> dict[str, Any]:
    """The document of an evaluation, JSON values only.

    The models answer once: `chosen.logits` keeps it, and a second run computes only. Raises
    ReadoffError: for rows that aren't legal, states to fit on that are tested on, a model with an
    adapter of its own, and as the engine does.
    """
    if chosen.json_rows and find_spec("xgrammar") is None:
        raise EvaluationError(
            "The JSON answers need xgrammar: pip install 'readoff[bench]', or leave them out with "
            "--json-rows 0."
        )
    test = read_decisions(chosen.test, ("test",))
    fit = None if chosen.fit is None else read_decisions([chosen.fit], ("valid",))
    if fit is not None:
        check_apart(test, fit)
    planned = [] if chosen.bigbench is None else list(tasks())
    unseen = [
        (one, task_decisions(one, _folder(chosen), limit=chosen.task_rows, seed=chosen.seed))
        for one in planned
    ]
    base = Subject(chosen.model, None, chosen.options)
    tuned = Subject(chosen.model, chosen.adapter, chosen.options)  # errors now, not in an hour
    heard = [_hear(base, chosen, TEST, [(None, test)], tell)]
    heard += [_hear(base, chosen, UNSEEN, unseen, tell)] if unseen else []
    base.close()
    fitted = None if fit is None else _said(tuned, chosen, [(None, fit)], "to fit", tell)
    own = [_said(tuned, chosen, one.parts, f"trained, {one.name}", tell) for one in heard]
    tuned.close()
    temperatures = _temperatures(fitted, tuned)
    scopes = [_scope(one, rows, temperatures.entry) for one, rows in zip(heard, own, strict=True)]
    return document(chosen, base, tuned, scopes, temperatures, tell)


def _hear(
    base: Subject,
    chosen: Chosen,
    name: str,
    parts: Sequence[tuple[Planned | None, Decisions]],
    tell: Tell,
) -> _Heard:
    """Everything that is wanted of the model without the adapter."""
    decisions = joined(part for _, part in parts)
    found: dict[Debias, list[Rows]] = {}
    modes = modes_for(chosen.debias)
    for planned, part in parts:
        what = f"zero-shot, {name if planned is None else planned.name}"
        kept = None if planned is None else _published(base, chosen, planned, part, modes)
        rows = kept or kept_rows(
            base,
            part.asks,
            modes,
            chosen.logits,
            rotations=None if planned is None else planned.rotations,
            tell=lambda done, total, what=what: tell(what, done, total),  # type: ignore[misc]
        )
        for mode, some in rows.items():
            found.setdefault(mode, []).append(some)
    merged = {mode: merged_rows(decisions, some) for mode, some in found.items()}
    written = _written(base, chosen, name, decisions, merged["none"], tell)
    return _Heard(name, decisions, parts, merged["none"], merged[chosen.debias], written)


def _published(
    base: Subject, chosen: Chosen, planned: Planned, part: Decisions, modes: Sequence[Debias]
) -> dict[Debias, Rows] | None:
    """The logits that the tables of docs/calibration.md were made from, where they lie in the
    folder: the same tasks, sampled and asked alike."""
    if base.key["dtype"] not in _TABLED or chosen.task_rows is not None:
        return None
    key = {"weights": base.weights, "template": base.renderer.template.digest}
    found: dict[Debias, Rows] = {}
    for mode in modes:
        path = rows_path(chosen.logits, planned, "given", mode, key, chosen.seed)
        kept = load_rows(path)
        rows = None if kept is None else relabelled(kept, part.asks)
        if rows is None:
            return None
        found[mode] = rows
    return found


def _written(
    base: Subject, chosen: Chosen, name: str, decisions: Decisions, rows: Rows, tell: Tell
) -> Contender | None:
    numbers = sample(decisions, chosen.json_rows, chosen.seed)
    if not numbers:
        return None
    asks = only(decisions, set(numbers))
    answers = json_answers(
        base,
        asks,
        chosen.logits,
        tell=lambda done, total: tell(f"JSON, {name}", done, total),
    )
    return stated(JSON, rows, in_order(decisions.places(), numbers, answers))


def _said(
    tuned: Subject,
    chosen: Chosen,
    parts: Sequence[tuple[Planned | None, Decisions]],
    what: str,
    tell: Tell,
) -> Rows:
    """What the model with the adapter says."""
    decisions = joined(part for _, part in parts)
    rows = kept_rows(
        tuned,
        decisions.asks,
        ("none",),
        chosen.logits,
        tell=lambda done, total: tell(what, done, total),
    )
    return rows["none"]


def merged_rows(decisions: Decisions, parts: Sequence[Rows]) -> Rows:
    """The logits of `parts`, one after the other, as the rows of all of `decisions`."""
    rows = decisions.rows()
    z = rows.z.copy()
    at = 0
    for part in parts:
        z[at : at + len(part), : part.z.shape[1]] = part.z
        at += len(part)
    assert at == len(rows)
    return Rows(
        rows.fields, rows.types, rows.options, rows.sizes, z, rows.target, rows.weight, rows.state
    )


def _temperatures(fitted: Rows | None, tuned: Subject) -> Temperatures:
    """One a type, from the rows to fit on, else those that came with the adapter."""
    if fitted is not None:
        made = fit_temperatures(fitted, options=False, fields=False, kappa=np.inf)
        return Temperatures(made.entry(), f"fitted to {len(fitted)} decisions", tuple(made.notes))
    own = tuned.card.temperature
    if own == Temperature():
        note = f'"{CALIBRATED}" is left out: no rows to fit on were given, and the adapter has none'
        return Temperatures(None, "", (f"{note}.",))
    return Temperatures(own, "those that came with the adapter")


def _scope(heard: _Heard, own: Rows, temperature: Temperature | None) -> Scope:
    bare, none = Temperature(), Prior()
    contenders = [
        readout(ZERO_SHOT, heard.zero, calibrated(heard.zero, none, bare)),
        readout(DEBIASED, heard.debiased, calibrated(heard.debiased, none, bare)),
        readout(TRAINED, own, calibrated(own, none, bare)),
    ]
    if temperature is not None:
        contenders.append(readout(CALIBRATED, own, calibrated(own, none, temperature)))
    if heard.json is not None:
        contenders.append(heard.json)
    return Scope(heard.name, heard.decisions, heard.zero, contenders)


def _folder(chosen: Chosen) -> Path:
    if chosen.bigbench is None or not chosen.bigbench.is_dir():
        raise EvaluationError(f"{chosen.bigbench} is no folder of public data sets.")
    return chosen.bigbench
