"""Made-up rows whose temperature and prior are known, and tiny ones by hand."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from readoff.bench.calibrate.rows import PAD, Rows, log_softmax, padded
from readoff.bench.calibrate.table import pooled
from readoff.engine.questions import QuestionType


def drawn(
    count: int,
    options: int = 4,
    *,
    temperature: float = 1.0,
    prior: Sequence[float] | None = None,
    name: str = "f",
    kind: QuestionType = "choice",
    seed: int = 0,
    per_state: int = 1,
    spread: float = 2.0,
) -> Rows:
    """Logits with noise, and truths drawn from `softmax((z - prior) / temperature)`."""
    generator = np.random.default_rng(seed)
    b = np.zeros(options) if prior is None else np.array(prior)
    z = generator.normal(size=(count, options)) * spread * temperature
    p = np.exp(log_softmax((z - b) / temperature))
    truth = (p.cumsum(axis=1) > generator.random((count, 1))).argmax(axis=1)
    target = np.zeros((count, options))
    target[np.arange(count), truth] = 1.0
    names = {"noul": ("true", "false")}.get(kind, tuple(map(str, range(options))))
    return Rows(
        fields=(name,) * count,
        types=(kind,) * count,
        options=(names,) * count,
        sizes=np.full(count, options, np.int64),
        z=z,
        target=target,
        weight=np.ones(count),
        state=np.arange(count, dtype=np.int64) // per_state,
    )


def together(*rows: Rows) -> Rows:
    """Rows of several fields, padded to the widest; every one about states of its own."""
    return pooled({some.fields[0]: some for some in rows})


def by_hand(logits: Sequence[Sequence[float]], truth: Sequence[int]) -> Rows:
    """One field "f" of Choice questions."""
    target = [[float(k == t) for k in range(len(z))] for z, t in zip(logits, truth, strict=True)]
    n = len(logits)
    return Rows(
        fields=("f",) * n,
        types=("choice",) * n,
        options=tuple(tuple(map(str, range(len(z)))) for z in logits),
        sizes=np.array([len(z) for z in logits], np.int64),
        z=padded(logits, PAD),
        target=padded(target, 0.0),
        weight=np.ones(n),
        state=np.arange(n, dtype=np.int64),
    )
