"""How often labels are wrong, estimated by confident learning, and the weights that follow.

Northcutt, Jiang and Chuang, "Confident Learning: Estimating Uncertainty in Dataset Labels", 2021,
as cleanlab has it: from out-of-fold probabilities the joint distribution of given and true labels
is estimated; what lies off its diagonal is noise.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from readoff.learn.data.assemble import BUILT
from readoff.learn.data.draft import Draft
from readoff.learn.data.posterior import Posterior
from readoff.learn.data.row import DERIVED, HUMAN, Row

_FEWEST = 100  # questions of a kind below which its rate says nothing

Key = tuple[str, str]
"""A source and a kind of question, `family_kind`."""


@dataclass(frozen=True)
class Noise:
    """Rates between 0 and 1: of the sources' own labels, and of kinds of derived questions where
    the second opinion says something about their answers."""

    sources: Mapping[str, float]
    kinds: Mapping[Key, float]

    def weight(self, source: str, draft: Draft) -> float:
        """1 minus the rate of the draft's kind, else of its source; 1 for what is right by
        construction."""
        if source == BUILT:
            return 1.0
        rate = self.kinds.get((source, f"{draft.family}_{draft.kind}"), self.sources[source])
        return round(1.0 - rate, 4)

    def to_json(self) -> dict[str, object]:
        """For data.json."""
        return {
            "sources": {name: round(rate, 4) for name, rate in self.sources.items()},
            "kinds": {
                f"{source}/{kind}": round(rate, 4) for (source, kind), rate in self.kinds.items()
            },
        }


def fixed_weight(draft: Draft) -> float:
    """1 for labels that people gave, a half for others."""
    return HUMAN if draft.human else DERIVED


def estimate(posteriors: Mapping[str, Posterior], rows: Iterable[Row]) -> Noise:
    """Rates of the sources, and of the kinds of which `rows` have enough questions to tell."""
    sources = {name: rate(found.labels, found.out_of_fold) for name, found in posteriors.items()}
    gathered: dict[tuple[str, str, int], list[tuple[int, list[float]]]] = {}
    for row in rows:
        for draft in row.drafts.values():
            if draft.guess is not None:
                labels = draft.question.options
                key = (row.source, f"{draft.family}_{draft.kind}", len(labels))
                given = labels.index(draft.answer)
                gathered.setdefault(key, []).append((given, list(draft.guess)))
    kinds: dict[Key, float] = {}
    for (source, kind, classes), found in sorted(gathered.items()):
        given_labels = np.array([given for given, _ in found])
        if len(found) >= _FEWEST and len(set(given_labels.tolist())) == classes:
            guesses = np.clip(np.array([guess for _, guess in found]), 1e-6, None)
            kinds[source, kind] = rate(given_labels, guesses)
    return Noise(sources, kinds)


def rate(labels: NDArray[np.int64], probabilities: NDArray[np.float64]) -> float:
    """The share of wrong labels. labels int64 [M], probabilities float64 [M, classes]."""
    from cleanlab.count import compute_confident_joint, estimate_joint  # type: ignore[import-untyped]

    rows = probabilities / probabilities.sum(axis=1, keepdims=True)
    confident = compute_confident_joint(labels, rows)
    joint = estimate_joint(labels, rows, confident_joint=confident)
    return float(1.0 - np.trace(joint))
