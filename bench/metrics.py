"""How good and how honest answers are: accuracy, log loss, Brier score, calibration error.

Confidences of all sources are compared in one form: the probability that the answer given is
right. Where there is a whole distribution, its own log loss and Brier score come on top.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from readoff.bench.bootstrap import Estimate, Floats, percentile, reflected, resampled
from readoff.bench.outcomes import FLOOR, Outcomes, Source, outcomes
from readoff.bench.records import Ask, Given
from readoff.bench.reliability import BINS, Bin, calibration_error, reliability


@dataclass(frozen=True)
class Quality:
    """The metrics of one source on one set of labelled requests.

    `answered` and `confident` are the shares with an answer and with a confidence. A failure
    counts as wrong in `accuracy` and is left out of everything that needs a confidence. `nll` and
    `brier` are those of the event "the answer is right" (Brier within 0 to 1); the
    `distribution_…` ones are over all options (Brier within 0 to 2). Soft labels count with their
    expected score. `calibrated_ece` is what a perfectly calibrated model would show on this
    sample: mean and interval; None, as in the bins, where labels are soft, since expected scores
    vary less than outcomes. `floored` is the share of rows where a probability of 0 was met by
    the truth, so that the log loss is what a floor of 1e-12 makes of infinity.
    """

    source: Source
    questions: int
    states: int
    answered: float
    confident: float
    accuracy: Estimate
    nll: Estimate | None
    brier: Estimate | None
    ece: Estimate | None
    calibrated_ece: Estimate | None
    distribution_nll: Estimate | None
    distribution_brier: Estimate | None
    bins: tuple[Bin, ...]
    floored: float


def quality(
    asks: Sequence[Ask],
    given: Sequence[Mapping[str, Given]],
    source: Source,
    *,
    seed: int = 0,
    bins: int = BINS,
    resamples: int = 1000,
) -> Quality:
    """The metrics of `source` on `asks`, answered by `given` in the same order.

    Raises ValueError as `outcomes` does.
    """
    return measure(outcomes(asks, given, source), source, seed=seed, bins=bins, resamples=resamples)


def measure(
    rows: Outcomes, source: Source, *, seed: int = 0, bins: int = BINS, resamples: int = 1000
) -> Quality:
    """The metrics of columns that are already there."""
    losses = event_losses(rows.confidence, rows.correct)
    means = np.stack([rows.correct, *losses, rows.log_loss, rows.brier])  # [5, N]
    sure = ~np.isnan(rows.confidence)

    def statistics(times: Floats) -> Floats:
        weight = rows.weight * times
        return np.array([*(_mean(row, weight) for row in means), _ece(rows, sure, weight, bins)])

    values = statistics(np.ones(len(rows)))
    spread = resampled(statistics, rows.group, seed=seed, resamples=resamples)
    accuracy, *rest = (percentile(float(v), spread[:, k]) for k, v in enumerate(values[:5]))
    nll, brier, whole_nll, whole_brier = (None if np.isnan(e.value) else e for e in rest)
    picture = None
    soft = bool(rows.soft[sure].any())
    if rows.weight[sure].sum() > 0.0:
        columns = (rows.confidence[sure], rows.correct[sure], rows.weight[sure])
        picture = reliability(*columns, bins=bins, seed=seed)
    return Quality(
        source=source,
        questions=len(rows),
        states=int(rows.group.max()) + 1,
        answered=_mean(rows.answered.astype(np.float64), rows.weight),
        confident=_mean(sure.astype(np.float64), rows.weight),
        accuracy=accuracy,
        nll=nll,
        brier=brier,
        ece=reflected(picture.ece, spread[:, 5]) if picture else None,
        calibrated_ece=picture.calibrated if picture and not soft else None,
        distribution_nll=whole_nll,
        distribution_brier=whole_brier,
        bins=tuple(map(_unexpected, picture.bins) if soft else picture.bins) if picture else (),
        floored=_mean(rows.floored.astype(np.float64), rows.weight),
    )


def event_losses(confidence: Floats, correct: Floats) -> tuple[Floats, Floats]:
    """Log loss and Brier score of the event "the answer is right", [N] each.

    `correct` may be a share: the expected score of an outcome that is right with that probability.
    """
    right, wrong = np.maximum(confidence, FLOOR), np.maximum(1.0 - confidence, FLOOR)
    log_loss = -(correct * np.log(right) + (1.0 - correct) * np.log(wrong))
    brier = correct * (1.0 - confidence) ** 2 + (1.0 - correct) * confidence**2
    return log_loss, brier


def _unexpected(one: Bin) -> Bin:
    return replace(one, expected_low=None, expected_high=None)


def _mean(values: Floats, weight: Floats) -> float:
    """The weighted mean over what isn't NaN; NaN if nothing has a weight."""
    known = ~np.isnan(values)
    total = weight[known].sum()
    return float((values[known] * weight[known]).sum() / total) if total > 0.0 else float("nan")


def _ece(rows: Outcomes, sure: NDArray[np.bool_], weight: Floats, bins: int) -> float:
    drawn = sure & (weight > 0.0)
    if not drawn.any():
        return float("nan")
    return calibration_error(rows.confidence[drawn], rows.correct[drawn], weight[drawn], bins)
