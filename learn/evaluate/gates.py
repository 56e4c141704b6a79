"""What an evaluation has to show, and what of it does worse than before."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from readoff.learn.evaluate.contender import CALIBRATED, DEBIASED, JSON, TRAINED, ZERO_SHOT
from readoff.learn.evaluate.scope import SAMPLE, TEST, UNSEEN
from readoff.learn.evaluate.slices import options_name

ECE_SHARE = 0.6
"""The mean ECE over families may be this share of the JSON's at most: 40 % below it."""
ROUTING = ("routing", 15, 0.85)
"""Family, number of options, and the accuracy asked of their choices."""


@dataclass(frozen=True)
class Gate:
    """`met` is None where there was nothing to measure it on. `found` says in words and figures
    what came out."""

    name: str
    asked: str
    found: str
    met: bool | None

    @property
    def word(self) -> str:
        """ "met", "MISSED" or "not measured"."""
        return "not measured" if self.met is None else "met" if self.met else "MISSED"


def gates(scopes: Sequence[Mapping[str, Any]]) -> list[Gate]:
    """All of them, in the order of the documents' families. `scopes` as `Scope.document` has it."""
    by_name = {scope["name"]: scope for scope in scopes}
    test = by_name.get(TEST, {"rows": [], "paired": []})
    sample = by_name.get(TEST + SAMPLE, test)
    return [*_families(test["paired"]), _ece(sample["rows"]), _routing(test["rows"])]


def losses(scopes: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Where the adapter does worse than the model without it, whatever the noise: tasks, and
    families (of several tasks, or where a scope has none), unseen ones first, over all decisions
    of each scope. `beyond_noise`: the interval of the difference excludes 0."""
    found = []
    for scope in sorted(scopes, key=lambda scope: scope["name"] != UNSEEN):
        if scope["name"].endswith(SAMPLE):
            continue
        # A family of one task is that task: it would be told twice. One of several is told beside
        # them, since what is noise in each can be more than noise in all.
        tasks = [_what(row) for row in scope["paired"] if row["kind"] == "task"]
        for row in scope["paired"]:
            if row["kind"] not in ("task", "family") or row["b"] != ZERO_SHOT:
                continue
            if row["kind"] == "family" and _what(row) in tasks:
                continue
            for figure, sign in (("accuracy", -1.0), ("nll", 1.0)):
                # A temperature changes no answer: its accuracy would be told twice.
                if figure == "accuracy" and row["a"] != TRAINED:
                    continue
                if sign * row[figure] > 0.0:
                    found.append(_loss(scope["name"], row, figure))
    return found


def _what(row: Mapping[str, Any]) -> tuple[Any, ...]:
    """What a row compares, and on how many decisions with which result."""
    return tuple(row[name] for name in ("a", "b", "decisions", "accuracy", "nll"))


def _loss(scope: str, row: Mapping[str, Any], figure: str) -> dict[str, Any]:
    ends = row[f"{figure}_interval"]
    return {
        "scope": scope,
        "kind": row["kind"],
        "slice": row["slice"],
        "contender": row["a"],
        "figure": figure,
        "difference": row[figure],
        "interval": ends,
        "decisions": row["decisions"],
        "beyond_noise": ends is not None and ends[0] * ends[1] > 0.0,
    }


def _families(paired: Sequence[Mapping[str, Any]]) -> Iterator[Gate]:
    rows = [r for r in paired if (r["kind"], r["a"], r["b"]) == ("family", TRAINED, DEBIASED)]
    asked = f"{TRAINED} above {DEBIASED} in accuracy and below it in NLL"
    for row in rows:
        met = row["accuracy"] > 0.0 and row["nll"] < 0.0
        found = f"accuracy {_signed(row, 'accuracy')}, NLL {_signed(row, 'nll')}"
        yield Gate(str(row["slice"]), asked, found, met)
    if not rows:
        yield Gate("families", asked, "no family was compared", None)


def _ece(rows: Sequence[Mapping[str, Any]]) -> Gate:
    """The mean over families of the adapter as it is served: with its temperatures, if any."""
    served = CALIBRATED if any(r["contender"] == CALIBRATED for r in rows) else TRAINED
    ours, theirs = (_family_mean(rows, name, "ece") for name in (served, JSON))
    asked = f"mean ECE of {served} at least {1 - ECE_SHARE:.0%} below that of {JSON}"
    if ours is None or theirs is None:
        return Gate("calibration", asked, f"no answers of {JSON}", None)
    told = ""
    if theirs > 0.0:
        share = 1.0 - ours / theirs
        told = f" ({abs(share):.0%} {'below' if share >= 0.0 else 'above'})"
    floor, other = (_family_mean(rows, name, "ece_if_calibrated") for name in (served, JSON))
    if floor is not None and other is not None:
        told += f"; calibrated models of such confidence would show {floor:.3f} and {other:.3f}"
    text = f"{ours:.3f} against {theirs:.3f}{told}"
    return Gate("calibration", asked, text, ours <= ECE_SHARE * theirs)


def _family_mean(rows: Sequence[Mapping[str, Any]], name: str, figure: str) -> float | None:
    """Over the families that have the figure."""
    found = [
        row[figure]
        for row in rows
        if row["kind"] == "family" and row["contender"] == name and row.get(figure) is not None
    ]
    return sum(found) / len(found) if found else None


def _routing(rows: Sequence[Mapping[str, Any]]) -> Gate:
    family, size, least = ROUTING
    asked = f"accuracy of {TRAINED} at least {least}"
    name = options_name(family, size)
    for row in rows:
        if (row["kind"], row["slice"], row["contender"]) == ("options", name, TRAINED):
            value = row["accuracy"]
            ends = row["accuracy_interval"]
            told = f" [{ends[0]:.3f}, {ends[1]:.3f}]" if ends else ""
            return Gate(name, asked, f"{value:.3f}{told}", value >= least)
    return Gate(name, asked, "no such questions were tested", None)


def _signed(row: Mapping[str, Any], figure: str) -> str:
    ends = row[f"{figure}_interval"]
    told = f" [{ends[0]:+.3f}, {ends[1]:+.3f}]" if ends else ""
    return f"{row[figure]:+.3f}{told}"
