"""Two results of `readoff bench` side by side: what became slower or worse beyond noise.

A time is judged by the ratio of medians, with a bootstrap interval from the raw seconds of both
files. Where both files have a rung that is transformers' own code (L0, L2t) on the same workload,
the same must hold of the time measured in that rung's time: a machine that was slower as a whole
that day is no regression. On different machines only the latter is judged.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from readoff.bench.report.document import Document, Row, rung
from readoff.bench.speedups import least_spread

MARGIN = 0.05
"""A change below this share is never called one: two runs differ by more than their repeats do."""

RESAMPLES = 4000
REFERENCES = ("L2t", "L0")
"""Rungs without any code of ours in the measured time."""

MACHINE = ("processor", "platform", "instruction_sets", "device", "dtype", "threads")
SETTINGS = ("model", "adapter", "card", "seed", "quick")


@dataclass(frozen=True)
class Change:
    """A rung on a workload, before and after. `ratio` above 1 is slower, with its interval.

    `relative` is the same in units of the reference rung. `verdict` is "slower", "faster", "same",
    "reference" for transformers' own rungs, or "not judged".
    """

    workload: str
    rung: str
    before_ms: float
    after_ms: float
    ratio: float
    low: float
    high: float
    relative: tuple[float, float, float] | None
    verdict: str


@dataclass(frozen=True)
class Comparison:
    """`warnings` say what makes the comparison doubtful, `regressions` what became worse."""

    changes: Sequence[Change]
    warnings: Sequence[str]
    regressions: Sequence[str]


def compare(before: Document, after: Document, seed: int = 0) -> Comparison:
    """Every rung that both files have on the same workload."""
    random = np.random.default_rng(seed)
    warnings, same_machine = _differences(before, after)
    changes, regressions = [], []
    for old in before["rungs"]:
        new = rung(after, old["workload"], old["name"])
        if new is None:
            warnings.append(f"{old['name']} on {old['workload']} is only in the first file.")
            continue
        if new.get("gate") == "red" and old.get("gate") != "red":
            regressions.append(f"{old['name']} on {old['workload']}: its gate is red now.")
        if old["seconds"] and new["seconds"]:
            change = _change(before, after, old, new, same_machine, random)
            changes.append(change)
            if change.verdict == "slower":
                regressions.append(
                    f"{change.rung} on {change.workload}: {change.ratio:.2f} times as long "
                    f"(95 %: {change.low:.2f} to {change.high:.2f})."
                )
    regressions += _worse(before, after)
    if not changes:
        warnings.append("The files have no rung and workload in common.")
    return Comparison(changes, warnings, regressions)


def _differences(before: Document, after: Document) -> tuple[list[str], bool]:
    """(warnings, whether both ran on the same machine)."""
    warnings = []
    machines = [document.get("machine") or {} for document in (before, after)]
    unlike = [key for key in MACHINE if machines[0].get(key) != machines[1].get(key)]
    if unlike:
        told = "; ".join(f"{k}: {machines[0].get(k)} and {machines[1].get(k)}" for k in unlike)
        warnings.append(f"Different machines, times are not judged by themselves ({told}).")
    settings = [document.get("settings") or {} for document in (before, after)]
    warnings += [
        f"Different settings, {key}: {settings[0].get(key)!r} and {settings[1].get(key)!r}."
        for key in SETTINGS
        if settings[0].get(key) != settings[1].get(key)
    ]
    for place, document in zip(("first", "second"), (before, after), strict=True):
        if not document.get("complete"):
            warnings.append(f"The {place} file is of a run that didn't end.")
    return warnings, not unlike


def _change(
    before: Document,
    after: Document,
    old: Row,
    new: Row,
    same_machine: bool,
    random: np.random.Generator,
) -> Change:
    medians = [_medians(row["seconds"], random) for row in (old, new)]
    pairs = min(len(old["seconds"]), len(new["seconds"]))
    ratio = _interval(medians[1] / medians[0], _median(new) / _median(old), pairs)
    relative = None
    for name in REFERENCES:
        pair = [rung(document, old["workload"], name) for document in (before, after)]
        if name != old["name"] and all(row is not None and row["seconds"] for row in pair):
            base = [_medians(row["seconds"], random) for row in pair if row is not None]
            exact = [_median(row) for row in pair if row is not None]
            relative = _interval(
                (medians[1] / base[1]) / (medians[0] / base[0]),
                (_median(new) / exact[1]) / (_median(old) / exact[0]),
                pairs,
            )
            break
    return Change(
        old["workload"],
        old["name"],
        _median(old) * 1e3,
        _median(new) * 1e3,
        *ratio,
        relative,
        _verdict(old["name"], ratio, relative, same_machine),
    )


def _verdict(
    name: str,
    ratio: tuple[float, float, float],
    relative: tuple[float, float, float] | None,
    same_machine: bool,
) -> str:
    if name in REFERENCES:
        return "reference"
    judged = [ratio] if same_machine else []
    judged += [relative] if relative is not None else []
    if not judged:
        return "not judged"
    if all(low > 1 + MARGIN for _, low, _ in judged):
        return "slower"
    if all(high < 1 / (1 + MARGIN) for _, _, high in judged):
        return "faster"
    return "same"


def _medians(seconds: Sequence[float], random: np.random.Generator) -> NDArray[np.float64]:
    """Medians of resamples, [RESAMPLES]."""
    values = np.asarray(seconds, dtype=float)
    picks = random.integers(0, len(values), (RESAMPLES, len(values)))
    found: NDArray[np.float64] = np.median(values[picks], axis=1)
    return found


def _median(row: Row) -> float:
    return float(np.median(row["seconds"]))


def _interval(samples: NDArray[np.float64], point: float, pairs: int) -> tuple[float, float, float]:
    low, high = np.percentile(samples, [2.5, 97.5])
    floor = least_spread(pairs)
    return point, min(float(low), point / floor), max(float(high), point * floor)


def _worse(before: Document, after: Document) -> Iterator[str]:
    """Quality that fell by more than chance: accuracy by a z-test, calibration by its own noise."""
    found: Mapping[Any, Row] = {
        (row["workload"], row["rung"], row["kind"]): row for row in after.get("quality") or []
    }
    for old in before.get("quality") or []:
        new = found.get((old["workload"], old["rung"], old["kind"]))
        if new is None or not old["n"] or not new["n"]:
            continue
        a, b = old["accuracy"], new["accuracy"]
        noise = (a * (1 - a) / old["n"] + b * (1 - b) / new["n"]) ** 0.5
        where = f"{old['rung']} on {old['workload']} ({old['kind']})"
        if a - b > max(1.96 * noise, 1e-9):
            yield f"{where}: accuracy {a:.3f} before, {b:.3f} now."
        if old.get("ece") is None or new.get("ece") is None:
            continue
        slack = max(_noise_of_ece(old), _noise_of_ece(new), 0.01)
        if new["ece"] - old["ece"] > slack:
            yield f"{where}: ECE {old['ece']:.3f} before, {new['ece']:.3f} now."


def _noise_of_ece(row: Row) -> float:
    """What a calibrated model would show; where that can't be said (soft labels), half of the
    interval."""
    if row.get("calibrated_ece") is not None:
        return float(row["calibrated_ece"])
    low, high = row.get("ece_interval") or (None, None)
    return 0.0 if low is None or high is None else (high - low) / 2.0
