"""A gate for a card: the rule's threshold for every type, and for every field that has its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
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
    """P(error among accepted > `alpha`) ≤ `beta`, for each threshold by itself; the error is that
    of a random decision of a random state."""

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
    *,
    seed: int = 0,
) -> FittedGate:
    """Thresholds on the largest of `p` [N, L]: for all, by type, and by field where it has enough
    decisions. What isn't among `rows` gets the threshold of all of them.

    For `Risk`, `rows` must be no part of what the scores were fitted to; `guide` may be. It counts
    one decision a state and threshold, drawn at random by `seed`, since those of one state aren't
    independent, and each once whatever its weight. Fields with too few decisions accept nothing.
    """
    notes: list[str] = []

    def chosen(mask: Callable[[Rows], NDArray[np.bool_]]) -> Chosen:
        return _choose(rows, p, rule, guide, mask, seed)

    overall = chosen(lambda r: np.ones(len(r), np.bool_))
    risky = isinstance(rule, Risk)
    # What only the guide has seen is untested: it must not pass under the threshold of others.
    more = guide[0] if risky and guide is not None else rows
    types = [kind for kind in TYPES if kind in rows.types or kind in more.types]
    found: dict[str, Chosen] = {
        kind: chosen(lambda r, kind=kind: r.of_type(kind))  # type: ignore[misc]
        for kind in (types if len(types) > 1 else ())
    }
    fields: dict[str, Chosen] = {}
    names = list(dict.fromkeys((*rows.fields, *more.fields)))
    for name in names if len(names) > 1 else ():
        count = int(rows.of_field(name).sum())
        if count < LEAST and risky:
            why = f"{count} decisions are too few for a promise of its own"
            fields[name] = Chosen(None, 0.0, None, why)
            notes.append(f'"{name}": {why}, so the gate accepts nothing of it.')
            continue
        if count < LEAST:
            notes.append(f'"{name}": {count} decisions are too few for a threshold of its own.')
            continue
        fields[name] = chosen(lambda r, name=name: r.of_field(name))  # type: ignore[misc]
    if risky and len({round(float(w), 12) for w in rows.weight}) > 1:
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
    seed: int,
) -> Chosen:
    kept = mask(rows)
    columns = outcomes_of(rows.where(kept), p[kept])
    if isinstance(rule, Cost):
        return by_cost(columns.confidence, columns.correct, columns.weight, rule.costs)
    if isinstance(rule, Coverage):
        return by_coverage(columns.confidence, columns.correct, columns.weight, rule.share)
    drawn = one_of_each(rows.state[kept].tolist(), seed)
    other = None
    if guide is not None and mask(guide[0]).any():
        some = mask(guide[0])
        seen = outcomes_of(guide[0].where(some), guide[1][some])
        other = (seen.confidence, seen.correct)
    found = by_risk(
        columns.confidence[drawn],
        columns.correct[drawn],
        alpha=rule.alpha,
        beta=rule.beta,
        guide=other,
    )
    if len(drawn) == len(columns):
        return found
    return replace(found, why=f"{found.why}; tested on one random decision of every state")


def one_of_each(states: Sequence[int], seed: int) -> NDArray[np.int64]:
    """The place of one row of every state, each of a state's rows as likely as the others.

    The first would always be the same question's, and tell nothing of the rest.
    """
    order = np.random.default_rng(seed).permutation(len(states))
    first = np.unique(np.array(states, np.int64)[order], return_index=True)[1]
    return order[first].astype(np.int64)


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
