"""What a plain classifier of words thinks of each message: a second opinion on the labels.

Probabilities of training messages are out of fold. They serve to find the intents that are easily
taken for another, to leave out derived negatives that may well be true, and to estimate noise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from readoff.learn.data.errors import DataError
from readoff.learn.data.messages import OUT_OF_SCOPE, Message, Source

_FOLDS = 3
_POWERS = (0.7, 0.85, 1.0, 1.2, 1.4, 1.6, 1.8, 2.0, 2.3, 2.6, 3.0, 3.5, 4.0)
_CONFUSED = 0.002  # below it, two intents have no more to do with each other than any two
_DIGITS = 6  # probabilities are rounded, so that ties don't hang on the last bit of a product


@dataclass(frozen=True)
class Posterior:
    """Probabilities of intents by message.

    `intents` are the columns of every row; `rows` is float64 [I] by `Message.key`; `labels` and
    `out_of_fold` (int64 [M], float64 [M, I]) are the training messages' own labels and rows.
    """

    intents: tuple[str, ...]
    rows: Mapping[str, NDArray[np.float64]]
    labels: NDArray[np.int64]
    out_of_fold: NDArray[np.float64]
    siblings: Mapping[str, tuple[str, ...]]

    def of(self, message: Message, intent: str) -> float:
        """The probability that `message` has `intent`; 0 for one that nothing is known of."""
        row = self.rows.get(message.key)
        return 0.0 if row is None else float(row[self.intents.index(intent)])

    def most_alike(self, intent: str, among: Sequence[str]) -> list[str]:
        """`among` without `intent` itself, those first that its messages are taken for most."""
        allowed = set(among)
        return [other for other in self.siblings[intent] if other in allowed]


def posterior(source: Source) -> Posterior:
    """The posterior of one source: TF-IDF of words and pairs of words, logistic regression.

    Out of fold for its training messages, by a model of all of them for the others. Raises
    DataError for an intent with too few messages to hold any out.
    """
    from sklearn.model_selection import StratifiedKFold  # type: ignore[import-untyped]

    train = [m for m in source.splits["train"] if m.intent != OUT_OF_SCOPE]
    intents = tuple(sorted({message.intent for message in train}))
    index = {intent: place for place, intent in enumerate(intents)}
    labels = np.array([index[message.intent] for message in train])
    counts = np.bincount(labels)
    if len(intents) < 2 or counts.min() < 2:
        raise DataError(
            f"{source.name} needs two intents or more, and two training messages of each; "
            f'"{intents[int(counts.argmin())]}" has {int(counts.min())}.'
        )
    texts = np.array([message.text for message in train], dtype=object)
    rows = np.zeros((len(train), len(intents)))
    folds = StratifiedKFold(min(_FOLDS, int(counts.min())), shuffle=True, random_state=0)
    for fitted, held_out in folds.split(texts, labels):
        model = _model().fit(texts[fitted], labels[fitted])
        rows[held_out] = model.predict_proba(texts[held_out])
    power = _sharpness(rows, labels)
    rows = _sharpened(rows, power)
    known = {message.key: row for message, row in zip(train, rows, strict=True)}
    others = [
        message for split in source.splits.values() for message in split if message.key not in known
    ]
    if others:
        model = _model().fit(texts, labels)
        guesses = _sharpened(model.predict_proba([message.text for message in others]), power)
        known |= {message.key: row for message, row in zip(others, guesses, strict=True)}
    return Posterior(intents, known, labels, rows, siblings(intents, labels, rows))


def siblings(
    intents: Sequence[str], labels: NDArray[np.int64], rows: NDArray[np.float64]
) -> dict[str, tuple[str, ...]]:
    """For each intent those that its messages are taken for, most often first: the ones that get
    at least `_CONFUSED` of their probability on average. labels int64 [M], rows float64 [M, I]."""
    found = {}
    for place, intent in enumerate(intents):
        shares = rows[labels == place].mean(axis=0).round(_DIGITS)  # [I]
        order = np.lexsort((np.arange(len(intents)), -shares))
        found[intent] = tuple(
            intents[other] for other in order if other != place and shares[other] >= _CONFUSED
        )
    return found


def _sharpness(rows: NDArray[np.float64], labels: NDArray[np.int64]) -> float:
    """The power that makes `rows` most probable: the model is unsure of itself as it comes."""
    own = np.arange(len(labels))
    losses = [
        -np.log(np.maximum(_sharpened(rows, power)[own, labels], 1e-6)).mean() for power in _POWERS
    ]
    return _POWERS[int(np.argmin(losses))]


def _sharpened(rows: NDArray[np.float64], power: float) -> NDArray[np.float64]:
    raised = rows**power
    shares: NDArray[np.float64] = (raised / raised.sum(axis=1, keepdims=True)).round(_DIGITS)
    return shares


def _model() -> Any:  # sklearn has no types
    from sklearn.feature_extraction.text import TfidfVectorizer  # type: ignore[import-untyped]
    from sklearn.linear_model import LogisticRegression  # type: ignore[import-untyped]
    from sklearn.pipeline import make_pipeline  # type: ignore[import-untyped]

    return make_pipeline(
        TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True, token_pattern=r"\w+"),
        LogisticRegression(C=10.0, max_iter=150, tol=1e-3),
    )
