"""Comparing two results: noise is not a regression, a slower rung is, a slower machine is told."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from readoff.bench.compare import compare

from .report import samples

BEFORE = samples.document()


def changed(**factors: float) -> dict[str, Any]:
    """The sample run with these rungs' times multiplied, on every workload."""
    made = copy.deepcopy(BEFORE)
    for row in made["rungs"]:
        factor = factors.get(row["name"], factors.get("all", 1.0))
        row["seconds"] = [value * factor for value in row["seconds"]]
    return made


def test_a_run_is_no_regression_of_itself() -> None:
    found = compare(BEFORE, BEFORE)
    assert found.regressions == []
    assert found.warnings == []
    assert {change.verdict for change in found.changes} == {"same", "reference"}
    assert len(found.changes) == len(BEFORE["rungs"])


def test_a_slower_rung_is_a_regression_and_a_faster_one_is_not() -> None:
    found = compare(BEFORE, changed(L4=1.3, L5=0.5))
    verdicts = {change.rung: change.verdict for change in found.changes}
    assert (verdicts["L4"], verdicts["L5"], verdicts["L3"]) == ("slower", "faster", "same")
    assert all(line.startswith("L4 on ") for line in found.regressions)
    assert "1.30 times as long" in found.regressions[0]


@pytest.mark.parametrize("factor", [1.03, 0.98])
def test_a_little_is_noise(factor: float) -> None:
    assert compare(BEFORE, changed(L4=factor)).regressions == []


def test_a_change_inside_wide_scatter_is_noise() -> None:
    wide = copy.deepcopy(BEFORE)
    for row in wide["rungs"]:
        row["seconds"] = [value * (0.5 + n % 3) for n, value in enumerate(row["seconds"])]
    after = copy.deepcopy(wide)
    for row in after["rungs"]:
        row["seconds"] = [value * 1.15 for value in row["seconds"]]
    assert compare(wide, after).regressions == []


def test_a_slower_day_is_no_regression() -> None:
    """Everything takes longer, transformers' own code too."""
    found = compare(BEFORE, changed(all=1.4))
    assert found.regressions == []
    assert found.changes[2].ratio == pytest.approx(1.4)
    assert found.changes[2].relative is not None
    assert found.changes[2].relative[0] == pytest.approx(1.0)


def test_without_an_opponent_only_the_clock_can_judge() -> None:
    before, after = copy.deepcopy(BEFORE), changed(all=1.4)
    for document in (before, after):
        document["rungs"] = [r for r in document["rungs"] if r["name"] not in ("L0", "L2t")]
    found = compare(before, after)
    assert {change.verdict for change in found.changes} == {"slower"}


def test_another_machine_is_told_and_its_clock_not_trusted() -> None:
    after = changed(all=0.5, L4=0.8)
    after["machine"]["processor"] = "another"
    found = compare(BEFORE, after)
    assert "Different machines" in found.warnings[0]
    assert {c.rung for c in found.changes if c.verdict == "slower"} == {"L4"}


def test_other_settings_and_missing_rungs_are_told() -> None:
    after = copy.deepcopy(BEFORE)
    after["settings"]["seed"] = 1
    after["complete"] = False
    gone = after["rungs"].pop()
    text = " ".join(compare(BEFORE, after).warnings)
    assert "seed: 0 and 1" in text
    assert "second file is of a run that didn't end" in text
    assert f"{gone['name']} on {gone['workload']} is only in the first file" in text


def test_a_red_gate_and_a_loss_of_quality_are_regressions() -> None:
    after = copy.deepcopy(BEFORE)
    after["rungs"][5]["gate"] = "red"
    after["quality"][0]["accuracy"] = 0.4
    after["quality"][1]["ece"] = 0.3
    found = " ".join(compare(BEFORE, after).regressions)
    assert "its gate is red now" in found
    assert "accuracy 0.610 before, 0.400 now" in found
    assert "ECE 0.110 before, 0.300 now" in found


def test_without_a_floor_the_interval_says_what_is_noise() -> None:
    """Soft labels have no floor."""
    before = copy.deepcopy(BEFORE)
    row = before["quality"][1]
    row |= {"ece": 0.11, "calibrated_ece": None, "ece_interval": [0.05, 0.17]}
    after = copy.deepcopy(before)
    after["quality"][1]["ece"] = 0.16
    assert not compare(before, after).regressions
    after["quality"][1]["ece"] = 0.18
    assert "ECE 0.110 before, 0.180 now" in " ".join(compare(before, after).regressions)


def test_nothing_in_common_is_told() -> None:
    after = copy.deepcopy(BEFORE)
    after["rungs"] = []
    found = compare(BEFORE, after)
    assert found.changes == []
    assert "no rung and workload in common" in found.warnings[-1]
