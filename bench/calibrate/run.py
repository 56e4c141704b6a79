"""A whole calibration: rows in; a card, out-of-fold figures and a gate out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from readoff.bench.bootstrap import Floats
from readoff.bench.calibrate.figures import Figures, figures, is_soft
from readoff.bench.calibrate.fit import Fit, Recipe, calibrated, check_rows, fit, out_of_fold
from readoff.bench.calibrate.folds import splits
from readoff.bench.calibrate.gate_fit import least_items
from readoff.bench.calibrate.gates import FittedGate, GateRule, Risk, fit_gate
from readoff.bench.calibrate.rows import Rows
from readoff.bench.calibrate.temperature import LEAST
from readoff.bench.calibrate.utility import Loss, realised_loss
from readoff.bench.quality.files import QualityError
from readoff.engine.card import Card
from readoff.engine.card_fields import ROTATIONS, TYPES, Debias, Digests, Prior, Temperature

Tell: TypeAlias = Callable[[str, int, int], None]
RESAMPLES = 1000
"""For the bootstrap intervals of a report."""


@dataclass(frozen=True)
class Part:
    """One part of the decisions (all, a type, a field), raw and out of fold."""

    name: str
    rows: Rows
    before: Figures
    after: Figures
    p_before: Floats
    p_after: Floats
    loss: Loss | None


@dataclass(frozen=True)
class Calibration:
    """What came out. `recipes` has the out-of-fold log loss of every way that was tried."""

    fit: Fit
    recipe: Recipe
    gate: FittedGate | None
    parts: Sequence[Part]
    recipes: Sequence[tuple[str, float, float]]
    notes: tuple[str, ...] = field(default=())


def calibrate(
    rows: Rows,
    recipe: Recipe,
    *,
    gate: GateRule | None = None,
    seed: int = 0,
    notes: Sequence[str] = (),
    tell: Tell = lambda what, done, total: None,
) -> Calibration:
    """Fit `recipe` to `rows` and say what it does to decisions that it didn't see.

    Under a rule with a guarantee half of the states fit the card and the other half choose the
    gate: scores that were fitted to the very decisions that test them would void the guarantee.
    Raises QualityError.
    """
    told = [*notes, *_soft_note(rows)]
    halves = check_labels(rows, gate, seed)
    p = out_of_fold(rows, recipe, seed=seed, tell=lambda *at: tell("folds", *at))
    if isinstance(gate, Risk) and halves is not None:
        train, held = halves
        made = fit(rows.where(train), recipe, seed=seed)
        test = rows.where(held)
        inner = made.probabilities(rows.where(train))  # a guide may know what it was fitted to
        chosen: FittedGate | None = fit_gate(
            test, made.probabilities(test), gate, (rows.where(train), inner), seed=seed
        )
        told.append(
            f"The card was fitted to {int(train.sum())} decisions; the other {int(held.sum())}, "
            "about other states, chose the gate's thresholds."
        )
    else:
        made = fit(rows, recipe, seed=seed)
        chosen = None if gate is None else fit_gate(rows, p, gate)
    told += [*made.priors.notes, *made.temperatures.notes, *(chosen.notes if chosen else ())]
    raw = calibrated(rows, Prior(), Temperature())
    return Calibration(
        fit=made,
        recipe=recipe,
        gate=chosen,
        parts=[_part(name, rows, mask, raw, p, seed) for name, mask in _masks(rows)],
        recipes=_compared(rows, recipe, raw, p, seed, tell),
        notes=tuple(dict.fromkeys(told)),
    )


def check_labels(
    rows: Rows, gate: GateRule | None, seed: int = 0
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]] | None:
    """What labels alone can tell: raises QualityError where `calibrate` could do nothing.

    The logits don't matter, so it can be asked before there are any. Under a rule with a guarantee
    it returns the halves, [N] each: what fits, and what tests.
    """
    check_rows(rows)
    next(iter(splits(rows, seed=seed)))
    if not isinstance(gate, Risk):
        return None
    train, held = next(iter(splits(rows, 2, seed)))
    if min(train.sum(), held.sum()) < LEAST:
        raise QualityError(
            f"A gate by risk takes half of the decisions to keep its promise, and {len(rows)} "
            f"don't leave {LEAST} for each half. Label more, or choose the gate by cost."
        )
    check_rows(rows.where(train))
    return train, held


def hopeless(
    rows: Rows, gate: GateRule | None, halves: tuple[NDArray[np.bool_], NDArray[np.bool_]] | None
) -> str | None:
    """A remark where so few states are left for tests that the gate can accept nothing."""
    if not isinstance(gate, Risk) or halves is None:
        return None
    states, needed = len(np.unique(rows.state[halves[1]])), least_items(gate.alpha, gate.beta)
    if states >= needed:
        return None
    return (
        f"The gate will accept nothing: its promise takes at least {needed} states in the half "
        f"that tests, and there are {states}. Label more, or promise less."
    )


def _soft_note(rows: Rows) -> Sequence[str]:
    soft = int(is_soft(rows).sum())
    if not soft:
        return ()
    return (
        f"{soft} labels are soft: a decision counts there by its expected score, which varies less "
        "than a right or wrong one. What a calibrated model would show can't be drawn for such "
        "decisions, so it is left out wherever they take part.",
    )


def card_from(
    card: Card,
    made: Calibration,
    digests: Digests,
    template: str,
    debias: Debias,
    rotations: int = ROTATIONS,
) -> Card:
    """`card` with what was fitted, bound to the model by `digests` and to the template's digest."""
    return replace(
        card,
        template=replace(card.template, digest=template),
        temperature=made.fit.temperature,
        prior=made.fit.prior,
        gate={} if made.gate is None else made.gate.gate.to_json(),
        digests=digests,
        debias=debias,
        rotations=rotations,
    )


def _masks(rows: Rows) -> Sequence[tuple[str, NDArray[np.bool_]]]:
    """All, each type if there are several, each field if there are several."""
    whole = ("all", np.ones(len(rows), np.bool_))
    types = [kind for kind in TYPES if kind in rows.types]
    fields = list(dict.fromkeys(rows.fields))
    found = [whole]
    if len(types) > 1:
        found += [(kind, rows.of_type(kind)) for kind in types]
    if len(fields) > 1:
        found += [(f'"{name}"', rows.of_field(name)) for name in fields]
    return found


def _part(
    name: str, rows: Rows, mask: NDArray[np.bool_], raw: Floats, p: Floats, seed: int
) -> Part:
    some = rows.where(mask)
    binary = some.sizes == 2
    loss = None
    if binary.any():
        two = some.where(binary)
        loss = realised_loss(p[mask][binary][:, 0], two.target[:, 0], two.weight)
    return Part(
        name=name,
        rows=some,
        before=figures(some, raw[mask], seed=seed, resamples=RESAMPLES),
        after=figures(some, p[mask], seed=seed, resamples=RESAMPLES),
        p_before=raw[mask],
        p_after=p[mask],
        loss=loss,
    )


def _compared(
    rows: Rows, recipe: Recipe, raw: Floats, p: Floats, seed: int, tell: Tell
) -> list[tuple[str, float, float]]:
    """(way, log loss, accuracy) out of fold: nothing, every method without a prior, the recipe."""
    found = [("nothing", *_told(rows, raw))]
    ways = [Recipe("type"), Recipe("options"), Recipe("field"), Recipe("shrunk")]
    for number, other in enumerate(ways):
        tell("comparing", number, len(ways))
        if other != recipe:
            found.append((_named(other), *_told(rows, out_of_fold(rows, other, seed=seed))))
    return [*found, (f"{_named(recipe)} (chosen)", *_told(rows, p))]


def _named(recipe: Recipe) -> str:
    of = {
        "type": "temperature by type",
        "options": "by type and number of options",
        "field": "by field",
        "shrunk": "shrunk between type, options and field",
    }
    return of[recipe.method] + (", with a prior" if recipe.prior else "")


def _told(rows: Rows, p: Floats) -> tuple[float, float]:
    at = np.arange(len(rows))
    loss = -(rows.target * np.log(np.maximum(p, 1e-12))).sum(axis=1)
    right = rows.target[at, p.argmax(axis=1)]
    total = rows.weight.sum()
    return float((rows.weight * loss).sum() / total), float((rows.weight * right).sum() / total)
