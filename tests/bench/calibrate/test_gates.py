"""The promise of a gate by risk, along the way that a calibration goes."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom  # type: ignore[import-untyped]

from readoff.bench.bootstrap import Floats
from readoff.bench.calibrate import gates
from readoff.bench.calibrate.fit import Recipe, fit
from readoff.bench.calibrate.gates import Coverage, Risk, fit_gate, one_of_each
from readoff.bench.calibrate.rows import Rows, log_softmax
from readoff.bench.calibrate.run import check_labels

DRAWS, STATES, ALPHA, BETA = 200, 600, 0.1, 0.1


def unequal(states: int, seed: int) -> Rows:
    """Two questions a state, equally sure: "easy" is nearly always right, "hard" too rarely."""
    generator, count = np.random.default_rng(seed), 2 * states
    gap = generator.uniform(0.0, 6.0, count)
    sure = 1.0 / (1.0 + np.exp(-gap))
    right = generator.random(count) < np.where(np.arange(count) % 2 == 0, 0.98, sure - 0.08)
    first = generator.integers(2, size=count)  # which option is the model's
    z, target = np.zeros((count, 2)), np.zeros((count, 2))
    at = np.arange(count)
    z[at, first] = gap
    target[at, np.where(right, first, 1 - first)] = 1.0
    return Rows(
        fields=("easy", "hard") * states,
        types=("choice",) * count,
        options=(("a", "b"),) * count,
        sizes=np.full(count, 2, np.int64),
        z=z,
        target=target,
        weight=np.ones(count),
        state=np.arange(count, dtype=np.int64) // 2,
    )


def broken_promises() -> tuple[int, int]:
    """Of the threshold for all decisions: how often given, how often wrong."""
    many = unequal(100_000, 10_000)
    gap = np.abs(many.z[:, 0] - many.z[:, 1])
    wrong = many.target[np.arange(len(many)), many.z.argmax(axis=1)] == 0.0
    given = broken = 0
    for seed in range(DRAWS):
        rows = unequal(STATES, seed)
        halves = check_labels(rows, Risk(ALPHA, BETA), seed)
        assert halves is not None
        train, held = (rows.where(mask) for mask in halves)
        made = fit(train, Recipe("type"), seed=seed)
        found = fit_gate(
            held,
            made.probabilities(held),
            Risk(ALPHA, BETA),
            (train, made.probabilities(train)),
            seed=seed,
        ).gate.threshold
        if found is not None:
            given += 1
            t = made.temperatures.found["choice"].value
            broken += bool(wrong[1.0 / (1.0 + np.exp(-gap / t)) >= found].mean() > ALPHA)
    return given, broken


def test_the_promise_holds_for_states_with_decisions_of_unequal_difficulty() -> None:
    given, broken = broken_promises()
    assert given > DRAWS // 2
    assert broken <= binom.ppf(0.975, DRAWS, BETA), f"{broken} of {DRAWS}"


def test_always_the_same_question_would_break_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def first(states: list[int], seed: int) -> object:
        return np.unique(states, return_index=True)[1]

    monkeypatch.setattr(gates, "one_of_each", first)
    _, broken = broken_promises()
    assert broken > DRAWS // 2, "the simulation can break the promise"


def test_each_row_of_a_state_is_drawn_as_often() -> None:
    states = [7, 7, 7, 3, 9, 9]
    times = np.zeros(6)
    for seed in range(600):
        found = one_of_each(states, seed)
        assert [states[i] for i in found] == [3, 7, 9]
        assert (found == one_of_each(states, seed)).all()
        times[found] += 1
    assert times[3] == 600
    low, high = binom.interval(0.9999, 600, 1 / 3)
    assert ((low <= times[:3]) & (times[:3] <= high)).all()
    assert one_of_each([], 0).shape == (0,)


def probabilities(rows: Rows) -> Floats:
    found: Floats = np.exp(log_softmax(rows.z))
    return found


def test_a_rare_field_passes_under_no_promise_of_others() -> None:
    rows = unequal(600, 3)
    rare = np.arange(len(rows)) < 30
    test = rows.where(~rows.of_field("hard") | rare)
    guide = unequal(600, 4)
    found = fit_gate(test, probabilities(test), Risk(ALPHA, BETA), (guide, probabilities(guide)))
    assert found.gate.threshold_for("choice", "easy") is not None
    assert found.gate.threshold_for("choice", "hard") is None
    assert "15 decisions are too few for a promise of its own" in found.thresholds['"hard"'].why
    assert any("accepts nothing of it" in note for note in found.notes)
    shared = fit_gate(test, probabilities(test), Coverage(0.5))
    assert "hard" not in shared.gate.by_field, "a rule that promises nothing may share"


def test_what_only_the_guide_has_seen_is_not_accepted() -> None:
    guide = unequal(300, 4)
    rows = unequal(300, 3)
    test = rows.where(rows.of_field("easy"))
    found = fit_gate(test, probabilities(test), Risk(ALPHA, BETA), (guide, probabilities(guide)))
    assert found.gate.threshold is not None
    assert found.gate.by_field["hard"] is None
