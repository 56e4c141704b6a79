"""A gate for a card: the rule's threshold for every type, and for every field that has its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from readoff.bench.bootstrap import Floats
from readoff.bench.calibrate.figures import outcomes_of
from readoff.bench.calibrate.gate_fit import Chosen, Costs, by_cost, by_coverage, by_risk
from readoff.bench.calibrate.rows import Rows
from readoff.bench.calibrate.temperature import LEAST
from readoff.engine.card_fields import TYPES
from readoff.engine.gate import Gate


@dataclass(frozen=True)
class Cost:
    """The threshold of the least mean cost."""

    costs: Costs


@dataclass(frozen=True)
class Risk:
    """P(error among accepted > `alpha`) ≤ `beta`, for each threshold by itself."""

    alpha: float
    beta: float


@dataclass(frozen=True)
class Coverage:
    """The share to accept."""

    share: float


GateRule: TypeAlias = Cost | Risk | Coverage


@dataclass(frozen=True)
class FittedGate:
    """A gate, how each of its thresholds came about, by what it is for, and remarks."""

    gate: Gate
    thresholds: Mapping[str, Chosen]
    notes: tuple[str, ...]


def fit_gate(
    rows: Rows,
    p: Floats,
    rule: GateRule,
    guide: tuple[Rows, Floats] | None = None,
) -> FittedGate:
    """Thresholds on the largest of `p` [N, L]: for all, by type, and by field where it has enough
    decisions. What isn't among `rows` gets the threshold of all of them.

    For `Risk`, `rows` must be no part of what the scores were fitted to; `guide` may be. It counts
    one decision a state and threshold (the first), since those of one state aren't independent, and
    it counts each once whatever its weight.
    """
    notes: list[str] = []

    def chosen(mask: Callable[[Rows], NDArray[np.bool_]]) -> Chosen:
        return _choose(rows, p, rule, guide, mask)

    overall = chosen(lambda r: np.ones(len(r), np.bool_))
    types = [kind for kind in TYPES if kind in rows.types]
    found: dict[str, Chosen] = {
        kind: chosen(lambda r, kind=kind: r.of_type(kind))  # type: ignore[misc]
        for kind in (types if len(types) > 1 else ())
    }
    fields: dict[str, Chosen] = {}
    names = list(dict.fromkeys(rows.fields))
    for name in names if len(names) > 1 else ():
        count = int(rows.of_field(name).sum())
        if count < LEAST:
            notes.append(f'"{name}": {count} decisions are too few for a threshold of its own.')
            continue
        fields[name] = chosen(lambda r, name=name: r.of_field(name))  # type: ignore[misc]
    if isinstance(rule, Risk) and len({round(float(w), 12) for w in rows.weight}) > 1:
        notes.append("The guarantee counts decisions, so their weights were left out of it.")
    own = {f'"{name}"': one for name, one in fields.items()}
    return FittedGate(
        Gate(
            threshold=overall.threshold,
            by_type={kind: one.threshold for kind, one in found.items()},
            by_field={name: one.threshold for name, one in fields.items()},
            fitted={
                "rule": _told(rule),
                "decisions": len(rows),
                "guaranteed": any(
                    one.guaranteed for one in (overall, *found.values(), *own.values())
                ),
            },
        ),
        {"all": overall, **found, **own},
        tuple(notes),
    )


def _choose(
    rows: Rows,
    p: Floats,
    rule: GateRule,
    guide: tuple[Rows, Floats] | None,
    mask: Callable[[Rows], NDArray[np.bool_]],
) -> Chosen:
    kept = mask(rows)
    columns = outcomes_of(rows.where(kept), p[kept])
    if isinstance(rule, Cost):
        return by_cost(columns.confidence, columns.correct, columns.weight, rule.costs)
    if isinstance(rule, Coverage):
        return by_coverage(columns.confidence, columns.correct, columns.weight, rule.share)
    first = _first_of_each(rows.state[kept].tolist())
    other = None
    if guide is not None and mask(guide[0]).any():
        some = mask(guide[0])
        seen = outcomes_of(guide[0].where(some), guide[1][some])
        other = (seen.confidence, seen.correct)
    return by_risk(
        columns.confidence[first],
        columns.correct[first],
        alpha=rule.alpha,
        beta=rule.beta,
        guide=other,
    )


def _first_of_each(states: Sequence[int]) -> NDArray[np.int64]:
    """The place of the first row of every state."""
    return np.unique(np.array(states, np.int64), return_index=True)[1].astype(np.int64)


def _told(rule: GateRule) -> dict[str, object]:
    if isinstance(rule, Cost):
        return {
            "kind": "cost",
            "wrong": rule.costs.wrong,
            "escalated": rule.costs.escalated,
            "right": rule.costs.right,
        }
    if isinstance(rule, Risk):
        return {"kind": "risk", "alpha": rule.alpha, "beta": rule.beta}
    return {"kind": "coverage", "share": rule.share}
