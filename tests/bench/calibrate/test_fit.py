"""Fits recover what the logits were made with, choose sensibly, and say what they don't fit."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression  # type: ignore[import-untyped]
from sklearn.metrics import log_loss  # type: ignore[import-untyped]

from readoff.bench.calibrate.fit import (
    METHODS,
    Recipe,
    calibrated,
    fit,
    log_losses,
    out_of_fold,
)
from readoff.bench.calibrate.folds import splits
from readoff.bench.calibrate.prior import fit_priors
from readoff.bench.calibrate.temperature import LEAST, fit_temperatures
from readoff.bench.quality.files import QualityError
from readoff.engine.card_fields import Prior, Temperature

from .made import by_hand, drawn, together

PRIOR = (1.5, -0.25, -0.5, -0.75)


@pytest.mark.parametrize("temperature", [0.3, 1.0, 4.0])
@pytest.mark.parametrize("seed", range(3))
def test_a_temperature_is_recovered_within_its_interval(temperature: float, seed: int) -> None:
    found = fit_temperatures(drawn(600, temperature=temperature, seed=seed)).found["choice"]
    assert found.low < temperature < found.high
    assert found.high / found.low < 1.5
    assert found.count == 600


def test_intervals_hold_the_true_temperature_as_often_as_they_say() -> None:
    held = 0
    for seed in range(200):
        found = fit_temperatures(drawn(100, 3, temperature=2.0, seed=seed)).found["choice"]
        held += found.low < 2.0 < found.high
    # 95 % of 200: two standard deviations are 6.2, and the interval is one for many decisions.
    assert 178 <= held <= 198


@pytest.mark.parametrize("seed", range(3))
def test_a_prior_and_a_temperature_are_recovered_within_their_intervals(seed: int) -> None:
    rows = drawn(3000, temperature=2.0, prior=PRIOR, seed=seed)
    made = fit_priors(rows, ridge=0.1).by_field["f"]
    centred = np.array(PRIOR) - np.mean(PRIOR)
    assert sum(made.values) == pytest.approx(0.0, abs=1e-9)
    # Four numbers with 95 % intervals: each within one and a half of them.
    assert (np.abs(np.array(made.values) - centred) < 1.5 * np.array(made.margin)).all()
    assert max(made.margin) < 0.3
    found = fit(rows, Recipe("type", prior=True))
    temperature = found.temperatures.found["choice"]
    assert temperature.low < 2.0 < temperature.high


def test_the_prior_is_that_of_a_regression_with_one_slope() -> None:
    """For two options it is a logistic regression on the difference of the logits."""
    rows = drawn(400, 2, temperature=1.5, prior=(0.8, -0.8), kind="noul")
    (found,) = fit_priors(rows, ridge=1e-6).by_field.values()
    difference = (rows.z[:, 0] - rows.z[:, 1])[:, None]
    model = LogisticRegression(C=1e8, tol=1e-10).fit(difference, rows.target[:, 0])
    slope, start = float(model.coef_[0, 0]), float(model.intercept_[0])
    assert found.values[0] - found.values[1] == pytest.approx(-start / slope, rel=1e-3)


@pytest.mark.parametrize("method", METHODS)
def test_a_temperature_changes_no_answer(method: str) -> None:
    rows = together(drawn(90, temperature=3.0), drawn(90, 6, temperature=0.5, name="g", seed=1))
    made = fit(rows, Recipe(method))  # type: ignore[arg-type]
    p = made.probabilities(rows)
    assert (p.argmax(axis=1) == rows.z.argmax(axis=1)).all()
    assert p.sum(axis=1) == pytest.approx(1.0)
    assert not p[:90, 4:].any(), "places beyond a row's options"
    assert made.prior == Prior()


def test_finer_methods_fit_what_differs_and_shrinkage_joins_what_does_not() -> None:
    unlike = together(drawn(400, temperature=0.5), drawn(400, temperature=4.0, name="g", seed=1))
    alike = together(drawn(60, temperature=2.0), drawn(60, temperature=2.0, name="g", seed=1))
    apart = fit(unlike, Recipe())
    assert apart.kappa < math.inf
    assert apart.temperature.by_field["f"] == pytest.approx(0.5, rel=0.25)
    assert apart.temperature.by_field["g"] == pytest.approx(4.0, rel=0.25)
    losses = {m: log_losses(unlike, out_of_fold(unlike, Recipe(m))).mean() for m in METHODS}
    assert losses["field"] < losses["type"] - 0.02
    assert losses["shrunk"] == pytest.approx(losses["field"], abs=0.005)
    found = [fit_temperatures(alike, kappa=k).fields for k in (0.0, 30.0, 1e6)]
    spreads = [abs(math.log(t["f"].value / t["g"].value)) for t in found]
    assert spreads[0] > spreads[1] > spreads[2]
    assert fit_temperatures(alike, kappa=math.inf).fields == {}


def test_temperatures_by_number_of_options_are_looked_up_as_the_engine_does() -> None:
    rows = together(
        drawn(200, 3, temperature=0.5, name="a"), drawn(200, 9, temperature=3.0, name="b", seed=1)
    )
    made = fit(rows, Recipe("options"))
    assert set(made.temperature.by_options) == {"choice:3", "choice:9"}
    assert made.temperature.find("choice", None, 3) == pytest.approx(0.5, rel=0.3)
    assert made.temperature.find("choice", "new", 9) == pytest.approx(3.0, rel=0.3)
    p = calibrated(rows, Prior(), made.temperature)
    expected = made.temperature.by_options["choice:9"]
    z = rows.z[-1] / expected
    assert p[-1] == pytest.approx(np.exp(z - z.max()) / np.exp(z - z.max()).sum())


def test_types_have_their_own_temperatures() -> None:
    rows = together(
        drawn(150, 4, temperature=3.0),
        drawn(150, 2, temperature=0.5, name="n", kind="noul", seed=1),
        drawn(150, 5, temperature=1.0, name="s", kind="score", seed=2),
    )
    entry = fit(rows, Recipe("type")).temperature
    assert (entry.choice, entry.noul, entry.score) == (
        pytest.approx(3.0, rel=0.3),
        pytest.approx(0.5, rel=0.3),
        pytest.approx(1.0, rel=0.3),
    )
    assert entry.by_field == entry.by_options == {}


def test_weights_and_soft_labels_count_as_the_decisions_they_stand_for() -> None:
    rows = drawn(60, 3, temperature=2.0)
    twice = replace(rows, weight=np.where(np.arange(60) < 30, 2.0, 1.0))
    kept = np.concatenate([np.arange(30), np.arange(60)])
    copied = replace(
        rows,
        fields=("f",) * 90,
        types=("choice",) * 90,
        options=rows.options[:1] * 90,
        sizes=rows.sizes[kept],
        z=rows.z[kept],
        target=rows.target[kept],
        weight=np.ones(90),
        state=rows.state[kept],
    )
    assert fit_temperatures(twice).found["choice"].value == pytest.approx(
        fit_temperatures(copied).found["choice"].value, rel=1e-5
    )
    z = [[1.0, 0.0]] * 40
    hard = by_hand(z, [0] * 28 + [1] * 12)
    soft = replace(hard, target=np.tile([0.7, 0.3], (40, 1)))
    value = fit_temperatures(soft).found["choice"].value
    assert value == pytest.approx(fit_temperatures(hard).found["choice"].value, rel=1e-5)
    assert value == pytest.approx(1 / math.log(7 / 3), rel=1e-4)


def test_nothing_of_a_state_is_on_both_sides_of_a_fold() -> None:
    rows = drawn(60, per_state=3)
    tested = np.zeros(60, int)
    for train, test in splits(rows, 5, seed=0):
        assert set(rows.state[train]).isdisjoint(rows.state[test])
        assert (train ^ test).all()
        tested += test
    assert (tested == 1).all()


def test_out_of_fold_probabilities_do_not_know_the_truth() -> None:
    """Labels that have nothing to do with the logits: a fit can only give up, out of fold too."""
    rows = drawn(200, 4, temperature=1.0)
    generator = np.random.default_rng(9)
    noise = replace(rows, target=rows.target[generator.permutation(200)])
    p = out_of_fold(noise, Recipe(prior=True))
    assert log_losses(noise, p).mean() == pytest.approx(math.log(4), abs=0.06)
    assert log_losses(noise, p).mean() > fit(noise, Recipe()).probabilities(noise).min()


def test_log_loss_is_that_of_sklearn() -> None:
    rows = drawn(100, 3, temperature=2.0)
    p = fit(rows, Recipe("type")).probabilities(rows)
    assert log_losses(rows, p).mean() == pytest.approx(log_loss(rows.target.argmax(axis=1), p))


def test_the_same_seed_gives_the_same_folds() -> None:
    rows = drawn(60, temperature=2.0)
    one, two, other = (out_of_fold(rows, Recipe("type"), seed=seed) for seed in (1, 1, 2))
    assert (one == two).all()
    assert (one != other).any()


def test_too_few_decisions_are_refused() -> None:
    with pytest.raises(QualityError, match=f"19 labelled decisions .* needs {LEAST}"):
        fit(drawn(LEAST - 1), Recipe())


def test_one_class_only_is_refused() -> None:
    with pytest.raises(QualityError, match="same option in every decision"):
        fit(by_hand([[1.0, 0.5]] * 30, [0] * 30), Recipe())


def test_one_state_only_is_refused() -> None:
    rows = drawn(40)
    with pytest.raises(QualityError, match="about one state"):
        out_of_fold(replace(rows, state=np.zeros(40, np.int64)), Recipe())


def test_a_type_with_too_few_or_one_class_keeps_temperature_1_and_says_so() -> None:
    few = drawn(LEAST - 1, 2, temperature=5.0, name="n", kind="noul", seed=1)
    same = drawn(30, 5, temperature=5.0, name="s", kind="score", seed=2)
    same = replace(same, target=np.tile([1.0, 0.0, 0.0, 0.0, 0.0], (30, 1)))
    found = fit(together(drawn(100, temperature=2.0), few, same), Recipe(prior=True))
    assert (found.temperature.noul, found.temperature.score) == (1.0, 1.0)
    notes = " ".join(found.temperatures.notes)
    assert "noul questions: 19 decisions, a fit needs 20; temperature 1." in notes
    assert "score questions: the truth is the same option everywhere; temperature 1." in notes
    assert '"s": the truth is the same option everywhere; it gets no prior.' in found.priors.notes
    assert '"n": 19 decisions, a prior needs 20; it gets none.' in found.priors.notes


def test_a_field_may_be_called_as_a_type_is() -> None:
    """Its temperature is the field's, and not the type's or the size's."""
    named = ("choice", "choice:4", "noul")
    temperatures = (0.5, 1.0, 4.0)
    rows = [
        drawn(400, temperature=t, name=n, seed=3) for n, t in zip(named, temperatures, strict=True)
    ]
    entry = fit(together(*rows), Recipe("field")).temperature
    plain = [replace(some, fields=(n,) * 400) for n, some in zip("abc", rows, strict=True)]
    wanted = fit(together(*plain), Recipe("field")).temperature
    assert entry.choice == pytest.approx(wanted.choice)
    assert entry.by_options == wanted.by_options
    assert (
        dict(zip("abc", (entry.by_field[name] for name in named), strict=True)) == wanted.by_field
    )
    assert (entry.noul, wanted.noul) == (1.0, 1.0)


def test_a_field_asked_as_two_types_gets_none_of_its_own() -> None:
    both = together(drawn(40, 2, name="x"), drawn(40, 2, name="y", kind="noul", seed=1))
    mixed = replace(both, fields=("x",) * 80)
    made = fit_temperatures(mixed)
    assert made.fields == {}
    assert '"x" is asked as several types' in " ".join(made.notes)


def test_a_temperature_that_the_data_do_not_tell_stays_and_is_told() -> None:
    made = fit_temperatures(by_hand([[9.0, 0.0], [0.0, 9.0]] * 15, [0, 1] * 15))
    assert made.found["choice"].value == 1.0
    assert "don't tell the temperature; it stays 1" in " ".join(made.notes)
    useless = fit_temperatures(by_hand([[9.0, 0.0], [9.0, 0.0]] * 15, [0, 1] * 15))
    assert useless.found["choice"].value == pytest.approx(50.0, rel=1e-2)
    assert "next to nothing" in " ".join(useless.notes)


def test_a_prior_that_helps_nobody_is_not_fitted() -> None:
    fair = [fit_priors(drawn(60, 4, seed=seed)) for seed in range(10)]
    none = [made for made in fair if not made.by_field]
    assert len(none) >= 5, "noise may look like a prior, though seldom"
    assert none[0].notes == ['"f": a prior is of no help on decisions held out; it gets none.']
    rows = together(drawn(60, 4, name="fair"), drawn(300, 4, prior=(3, 0, 0, 0), name="helped"))
    found = fit(rows, Recipe(prior=True)).priors
    assert found.by_field["helped"].ridge < 30.0, "each is chosen by itself"
    assert found.by_field["helped"].values[0] > 1.5


def test_options_that_vary_share_a_prior_of_places() -> None:
    rows = drawn(80, 3, prior=(2.0, 0.0, 0.0))
    varied = replace(rows, options=tuple((f"a{i}", f"b{i}", f"c{i}") for i in range(80)))
    made = fit_priors(varied, ridge=1.0)
    assert list(made.by_options) == ["choice:3"]
    assert made.by_field == {}
    assert made.by_options["choice:3"].values[0] > 0.5
    assert fit_priors(rows, ridge=1.0).by_options == {}


def test_the_entries_are_a_cards_own() -> None:
    assert isinstance(fit(drawn(50), Recipe()).temperature, Temperature)


@pytest.mark.parametrize("count", [30, 5])
def test_a_field_denied_a_prior_does_not_take_that_of_its_size(count: int) -> None:
    same = drawn(count, 2, name="same")
    same = replace(same, target=np.tile([1.0, 0.0], (count, 1)))
    varied = drawn(200, 2, name="varied", prior=(2.0, -2.0))
    varied = replace(varied, options=tuple((f"x{i}", f"y{i}") for i in range(200)))
    made = fit_priors(together(same, varied))
    assert made.by_options["choice:2"].values[0] > 0.5
    assert made.entry().find("choice", "same", 2) == (0.0, 0.0)
    assert made.entry().find("choice", "unseen", 2) == made.by_options["choice:2"].values
    assert '"same": nor does it take the prior of choice:2.' in made.notes
    assert fit_priors(same).entry() == Prior(), "without such a prior there is nothing to refuse"
