"""Gates can be met and missed, and losses are found."""

from __future__ import annotations

from typing import Any

import pytest

from readoff.learn.evaluate.contender import CALIBRATED, DEBIASED, JSON, TRAINED, ZERO_SHOT
from readoff.learn.evaluate.gates import gates, losses

Row = dict[str, Any]


def pair(name: str, accuracy: float, nll: float, **other: Any) -> Row:
    row = {"slice": name, "kind": "family", "a": TRAINED, "b": DEBIASED, "decisions": 50}
    row |= {"accuracy": accuracy, "accuracy_interval": [accuracy - 0.1, accuracy + 0.1]}
    row |= {"nll": nll, "nll_interval": [nll - 0.1, nll + 0.1]}
    return row | other


def figure(contender: str, ece: float, **other: Any) -> Row:
    row = {"slice": "routing", "kind": "family", "contender": contender, "ece": ece}
    return row | {"accuracy": 0.9, "accuracy_interval": [0.8, 0.95]} | other


def scopes(
    paired: list[Row], sample: list[Row] | None = None, rows: list[Row] | None = None
) -> list[Row]:
    made: list[Row] = [{"name": "test", "rows": rows or [], "paired": paired}]
    if sample is not None:
        made.append({"name": "test sample", "rows": sample, "paired": []})
    return made


def verdicts(found: list[Row]) -> dict[str, str]:
    return {gate.name: gate.word for gate in gates(found)}


@pytest.mark.parametrize(
    ("accuracy", "nll", "word"),
    [(0.2, -0.5, "met"), (-0.01, -0.5, "MISSED"), (0.2, 0.01, "MISSED"), (0.0, -0.5, "MISSED")],
)
def test_a_family_must_win_in_both(accuracy: float, nll: float, word: str) -> None:
    found = verdicts(scopes([pair("routing", 0.3, -1.0), pair("navigation", accuracy, nll)]))
    assert (found["routing"], found["navigation"]) == ("met", word)


def test_the_noise_floor_is_told_beside_the_mean() -> None:
    rows = [figure(CALIBRATED, 0.1, ece_if_calibrated=0.08), figure(JSON, 0.3)]
    rows += [figure(CALIBRATED, 0.1, ece_if_calibrated=0.06, slice="navigation")]
    [found] = [gate.found for gate in gates(scopes([], rows)) if gate.name == "calibration"]
    assert found == "0.100 against 0.300 (67% below)"
    rows[1]["ece_if_calibrated"] = 0.04
    [found] = [gate.found for gate in gates(scopes([], rows)) if gate.name == "calibration"]
    assert found.endswith("; calibrated models of such confidence would show 0.070 and 0.040")


@pytest.mark.parametrize(("ours", "word"), [(0.10, "met"), (0.12, "met"), (0.13, "MISSED")])
def test_mean_ece_is_that_of_the_served_adapter_over_families(ours: float, word: str) -> None:
    rows = [
        figure(CALIBRATED, ours - 0.05),
        figure(CALIBRATED, ours + 0.05, slice="navigation"),
        figure(TRAINED, 0.9),
        figure(JSON, 0.1),
        figure(JSON, 0.3, slice="navigation"),
        figure(JSON, 5.0, slice="zh", kind="language"),
    ]
    assert verdicts(scopes([], rows))["calibration"] == word


def test_without_temperatures_the_trained_one_is_served() -> None:
    rows = [figure(TRAINED, 0.19), figure(JSON, 0.2)]
    assert verdicts(scopes([], rows))["calibration"] == "MISSED"


@pytest.mark.parametrize(("accuracy", "word"), [(0.85, "met"), (0.849, "MISSED")])
def test_routing_with_15_options(accuracy: float, word: str) -> None:
    name = "routing, 15 options"
    rows = [
        figure(TRAINED, 0.1, slice=name, kind="options", accuracy=accuracy),
        figure(ZERO_SHOT, 0.1, slice=name, kind="options", accuracy=0.99),
    ]
    assert verdicts(scopes([], rows=rows))[name] == word


def test_what_was_not_measured_is_not_met() -> None:
    found = verdicts(scopes([]))
    assert set(found.values()) == {"not measured"}
    assert len(found) == 3


def test_losses_are_those_against_zero_shot_unseen_tasks_first() -> None:
    zero = {"b": ZERO_SHOT}
    test = [
        pair("routing", -0.02, 0.4, **zero),
        pair("routing", -0.02, 0.05, a=CALIBRATED, **zero),
        pair("relevance", 0.1, -0.1, **zero),
        pair("relevance", -0.5, 0.5),
        pair("all", -0.5, 0.5, kind="all", **zero),
    ]
    unseen = [
        pair("metaphor", 0.3, 0.2, kind="task", **zero),
        pair("rewriting", 0.3, 0.2, **zero),  # the same decisions once more
        pair("snarks", 0.1, -0.2, kind="task", **zero),
        pair("verification", 0.1, 0.1, **zero),  # of several tasks, and so with less noise
    ]
    found = losses([*scopes(test), {"name": "unseen", "rows": [], "paired": unseen}])
    told = [(r["slice"], r["contender"], r["figure"], r["beyond_noise"]) for r in found]
    assert told == [
        ("metaphor", TRAINED, "nll", True),
        ("verification", TRAINED, "nll", False),
        ("routing", TRAINED, "accuracy", False),
        ("routing", TRAINED, "nll", True),
        ("routing", CALIBRATED, "nll", False),
    ]
