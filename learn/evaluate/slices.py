"""`Slice`: a part of the decisions that figures are told of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from readoff.bench.calibrate.rows import Rows
from readoff.engine.card_fields import TYPES
from readoff.learn.evaluate.decisions import Decisions

Kind: TypeAlias = Literal["all", "family", "task", "type", "options", "language"]

LEAST = 30
"""Decisions that a slice by number of options must have: sizes are many on public data."""


@dataclass(frozen=True)
class Slice:
    """`mask` [N]. Of kind "options" it is one family's choices of one number of options."""

    kind: Kind
    name: str
    mask: NDArray[np.bool_]


def slices(decisions: Decisions, rows: Rows, *, tasks: bool = False) -> list[Slice]:
    """All; each family; each type, language, and (family, number of options) where a family has
    several numbers; with `tasks` each source in place of these three."""
    made = [Slice("all", "all", np.ones(len(rows), np.bool_))]
    families = list(dict.fromkeys(decisions.families))
    if tasks:
        sources = list(dict.fromkeys(decisions.sources))
        made += [Slice("task", name, _is(decisions.sources, name)) for name in sources]
        return made + [Slice("family", name, _is(decisions.families, name)) for name in families]
    made += [Slice("family", name, _is(decisions.families, name)) for name in families]
    made += [Slice("type", kind, rows.of_type(kind)) for kind in TYPES if kind in rows.types]
    for name in families:
        own = _is(decisions.families, name) & rows.of_type("choice")
        sizes = [int(size) for size in np.unique(rows.sizes[own])]
        for size in sizes if len(sizes) > 1 else ():
            mask = own & (rows.sizes == size)
            if int(mask.sum()) >= LEAST:
                made.append(Slice("options", options_name(name, size), mask))
    for language in dict.fromkeys(decisions.languages):
        made.append(Slice("language", language, _is(decisions.languages, language)))
    return made


def options_name(family: str, size: int) -> str:
    """What the slice of a family's choices of `size` options is called."""
    return f"{family}, {size} options"


def _is(values: Sequence[str], wanted: str) -> NDArray[np.bool_]:
    return np.array([value == wanted for value in values], np.bool_)
