"""Metrics of labelled answers: values by hand, soft labels, failures, floors, intervals."""

from __future__ import annotations

import math
from itertools import count

import numpy as np
import pytest

from readoff.bench.metrics import Quality, quality
from readoff.bench.outcomes import FLOOR, Source, outcomes
from readoff.bench.records import Ask, Given, Target
from readoff.engine.questions import Choice, Noul

NUMBERS = count()
ABC = Choice(criteria={"a": None, "b": None, "c": None})


def ask(target: Target, weight: float = 1.0) -> Ask:
    """About a state of its own."""
    return Ask(f"state {next(NUMBERS)}", {"q": ABC}, {"q": target}, weight)


def readout(*p: float) -> dict[str, Given]:
    return {"q": Given("abc"[int(np.argmax(p))], p)}


def stated(value: str | None, confidence: float | None) -> dict[str, Given]:
    return {"q": Given(value, stated=confidence)}


def of(pairs: list[tuple[Ask, dict[str, Given]]], source: Source) -> Quality:
    return quality([a for a, _ in pairs], [g for _, g in pairs], source, resamples=200)


def value(found: object) -> float:
    assert found is not None
    return float(found.value)  # type: ignore[attr-defined]


def test_readout_by_hand() -> None:
    found = of(
        [(ask({"a": 1.0}), readout(0.7, 0.2, 0.1)), (ask({"c": 1.0}, 3.0), readout(0.5, 0.1, 0.4))],
        "readout",
    )
    assert (found.questions, found.states, found.answered, found.confident) == (2, 2, 1.0, 1.0)
    assert value(found.accuracy) == pytest.approx(1 / 4)
    event = (-math.log(0.7) - 3 * math.log(0.5)) / 4
    assert value(found.nll) == pytest.approx(event)
    assert value(found.brier) == pytest.approx((0.3**2 + 3 * 0.5**2) / 4)
    assert value(found.distribution_nll) == pytest.approx((-math.log(0.7) - 3 * math.log(0.4)) / 4)
    first = 0.3**2 + 0.2**2 + 0.1**2
    second = 0.5**2 + 0.1**2 + 0.6**2
    assert value(found.distribution_brier) == pytest.approx((first + 3 * second) / 4)
    # Two bins of one item each: 0.7 against right, 0.5 against wrong.
    assert value(found.ece) == pytest.approx((0.3 + 3 * 0.5) / 4)


def test_a_soft_label_scores_what_its_outcomes_would_on_average() -> None:
    p = (0.6, 0.3, 0.1)
    soft = of([(ask({"a": 0.8, "b": 0.2}), readout(*p))], "readout")
    hard = of([(ask({"a": 1.0}, 8.0), readout(*p)), (ask({"b": 1.0}, 2.0), readout(*p))], "readout")
    for name in ("accuracy", "nll", "brier", "distribution_nll", "distribution_brier", "ece"):
        assert value(getattr(soft, name)) == pytest.approx(value(getattr(hard, name))), name


@pytest.mark.parametrize("source", ["stated", "tokens"])
def test_confidences_of_json_are_scored_in_the_same_form(source: Source) -> None:
    def given(option: str, confidence: float) -> dict[str, Given]:
        field = {"stated": "stated", "tokens": "token_confidence"}[source]
        return {"q": Given(option, **{field: confidence})}  # type: ignore[arg-type]

    pairs = [(ask({"a": 1.0}), given("a", 0.7)), (ask({"c": 1.0}, 3.0), given("a", 0.5))]
    found = of(pairs, source)
    same = of(
        [(ask({"a": 1.0}), readout(0.7, 0.2, 0.1)), (ask({"c": 1.0}, 3.0), readout(0.5, 0.1, 0.4))],
        "readout",
    )
    for name in ("accuracy", "nll", "brier", "ece", "calibrated_ece"):
        assert value(getattr(found, name)) == pytest.approx(value(getattr(same, name))), name
    assert found.distribution_nll is None
    assert found.distribution_brier is None


def test_a_failure_is_wrong_and_has_no_confidence() -> None:
    found = of(
        [
            (ask({"a": 1.0}), stated("a", 0.9)),
            (ask({"a": 1.0}), stated(None, None)),
            (ask({"a": 1.0}), {}),
            (ask({"a": 1.0}), stated("a", None)),
        ],
        "stated",
    )
    assert value(found.accuracy) == 0.5
    assert (found.answered, found.confident) == (0.5, 0.25)
    assert value(found.brier) == pytest.approx(0.01)
    assert sum(b.count for b in found.bins) == 1


def test_nothing_but_failures_has_an_accuracy_and_nothing_else() -> None:
    found = of([(ask({"a": 1.0}), stated(None, None))] * 2, "stated")
    assert value(found.accuracy) == 0.0
    assert found.nll is found.brier is found.ece is found.calibrated_ece is None
    assert found.bins == ()


def test_a_probability_of_zero_is_floored_and_counted() -> None:
    pairs = [(ask({"b": 1.0}), readout(1.0, 0.0, 0.0)), (ask({"a": 1.0}), readout(1.0, 0.0, 0.0))]
    found = of(pairs, "readout")
    assert value(found.distribution_nll) == pytest.approx(-math.log(FLOOR) / 2)
    assert value(found.nll) == pytest.approx(-math.log(FLOOR) / 2)
    assert found.floored == 0.5
    sure = of([(ask({"b": 1.0}), stated("a", 1.0)), (ask({"b": 1.0}), stated("b", 1.0))], "stated")
    assert value(sure.nll) == pytest.approx(-math.log(FLOOR) / 2)
    assert sure.floored == 0.5
    unsure = of(
        [(ask({"a": 1.0}), stated("a", 0.0)), (ask({"b": 1.0}), stated("a", 0.0))], "stated"
    )
    assert value(unsure.nll) == pytest.approx(-math.log(FLOOR) / 2)
    assert unsure.floored == 0.5


def test_soft_labels_have_no_floor_to_compare_with() -> None:
    """Expected scores vary less than the outcomes that the floor is drawn from."""
    hard = [(ask({"abc"[n % 2]: 1.0}), readout(0.5, 0.4, 0.1)) for n in range(40)]
    found = of(hard, "readout")
    assert found.calibrated_ece is not None
    assert all(one.expected_low is not None for one in found.bins)
    soft = of([*hard, (ask({"b": 0.5, "c": 0.5}), readout(0.5, 0.4, 0.1))], "readout")
    assert (soft.ece is not None, soft.calibrated_ece) == (True, None)
    assert {(one.expected_low, one.expected_high) for one in soft.bins} == {(None, None)}


def test_one_item_has_values_and_no_intervals() -> None:
    found = of([(ask({"a": 1.0}), readout(0.7, 0.2, 0.1))], "readout")
    assert value(found.ece) == pytest.approx(0.3)
    assert math.isnan(found.accuracy.low)


def test_intervals_cover_a_calibrated_model() -> None:
    """Probabilities that are exactly right: the metrics surround their expected values."""
    generator = np.random.default_rng(5)
    pairs = []
    for _ in range(500):
        p = generator.dirichlet([4.0, 1.0, 1.0])
        pairs.append((ask({"abc"[generator.choice(3, p=p)]: 1.0}), readout(*p)))
    found = of(pairs, "readout")
    top = np.array([max(g["q"].probabilities or ()) for _, g in pairs])
    assert found.accuracy.low < top.mean() < found.accuracy.high
    assert found.brier is not None
    assert found.brier.low < (top * (1 - top)).mean() < found.brier.high
    assert found.ece is not None
    assert found.calibrated_ece is not None
    assert found.calibrated_ece.low < found.ece.value < found.calibrated_ece.high


def test_questions_of_one_state_are_drawn_together() -> None:
    """Forty states whose ten questions are all right or all wrong: no better than forty."""
    noul = Noul()
    names = [f"q{n}" for n in range(10)]
    truth: dict[str, Target] = {name: {"true": 1.0} for name in names}
    asks = [Ask(f"s{n}", dict.fromkeys(names, noul), truth) for n in range(40)]
    given = [
        dict.fromkeys(names, Given("true" if n % 2 else "false", stated=0.5)) for n in range(40)
    ]
    found = quality(asks, given, "stated", resamples=400)
    assert (found.questions, found.states) == (400, 40)
    # 1.96·sqrt(0.25/40) = 0.155; four hundred independent ones would give 0.049.
    assert found.accuracy.high - found.accuracy.low == pytest.approx(0.31, abs=0.04)
    # In several requests each, of different weights, they are no more.
    apart = [
        Ask(one.state, {name: noul}, {name: truth[name]}, 0.5 if name == "q0" else 1.0)
        for one in asks
        for name in names
    ]
    answers = [{name: answer} for one in given for name, answer in one.items()]
    again = quality(apart, answers, "stated", resamples=400)
    assert (again.questions, again.states) == (400, 40)
    assert again.accuracy.high - again.accuracy.low == pytest.approx(0.31, abs=0.04)


def test_a_requests_number_does_not_matter_when_others_have_no_targets() -> None:
    unlabelled = Ask("state", {"q": ABC})
    rows = outcomes([unlabelled, ask({"a": 1.0})], [{}, readout(0.7, 0.2, 0.1)], "readout")
    assert len(rows) == 1
    assert rows.group.tolist() == [0]


def test_the_same_seed_gives_the_same_metrics() -> None:
    pairs = [(ask({"abc"[n % 3]: 1.0}), readout(0.5, 0.3, 0.2)) for n in range(9)]
    assert of(pairs, "readout") == of(pairs, "readout")


@pytest.mark.parametrize(
    ("given", "source", "message"),
    [
        (readout(0.7, 0.2), "readout", "no distribution"),
        (readout(0.7, 0.2, 0.2), "readout", "no distribution"),
        ({"q": Given("a", (math.nan, 0.5, 0.5))}, "readout", "no distribution"),
        ({"q": Given("a", (1.5, -0.5, 0.0))}, "readout", "no distribution"),
        (stated("a", 1.2), "stated", "not within 0 to 1"),
        (stated("a", math.nan), "stated", "not within 0 to 1"),
        (stated("d", 0.5), "stated", "none of its options"),
    ],
)
def test_answers_that_are_none_are_refused(
    given: dict[str, Given], source: Source, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        outcomes([ask({"a": 1.0})], [given], source)


def test_nothing_to_measure_is_refused() -> None:
    with pytest.raises(ValueError, match="no labelled question"):
        outcomes([Ask("state", {"q": ABC})], [{}], "readout")
    with pytest.raises(ValueError, match="weight above zero"):
        outcomes([ask({"a": 1.0}, 0.0)], [readout(0.7, 0.2, 0.1)], "readout")
    with pytest.raises(ValueError, match="1 requests and answers to 0"):
        outcomes([ask({"a": 1.0})], [], "readout")
