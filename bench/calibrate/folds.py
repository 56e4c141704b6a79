"""Folds that never share a state."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import GroupKFold  # type: ignore[import-untyped]

from readoff.bench.calibrate.rows import Rows
from readoff.bench.quality.files import QualityError

FOLDS = 5


def splits(
    rows: Rows, folds: int = FOLDS, seed: int = 0
) -> Iterator[tuple[NDArray[np.bool_], NDArray[np.bool_]]]:
    """(train, test) masks; the rows of one state are never on both sides. Raises QualityError."""
    states = len(np.unique(rows.state))
    if states < 2:
        raise QualityError(
            "All decisions are about one state, so no fold can be held out. Label other states."
        )
    parts = GroupKFold(n_splits=min(folds, states), shuffle=True, random_state=seed)
    for _, test in parts.split(np.zeros(len(rows)), groups=rows.state):
        mask = np.zeros(len(rows), np.bool_)
        mask[test] = True
        yield ~mask, mask
