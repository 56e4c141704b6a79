"""Debiasing on made-up logits: what is asked, what is averaged, what is remembered."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from readoff.engine.answers import (
    Answer,
    ChoiceAnswer,
    Decision,
    NoulAnswer,
    ScoreAnswer,
    Usage,
    build_answer,
)
from readoff.engine.calibration import probabilities
from readoff.engine.card import Card
from readoff.engine.card_fields import DEBIAS, Debias, Prior, Temperature
from readoff.engine.debias import (
    CONTENT_FREE,
    Priors,
    debiased,
    expand,
    fingerprint,
    merge,
    rotated,
    shifts,
)
from readoff.engine.errors import CardError, QuestionError
from readoff.engine.questions import Choice, Noul, Question, Score
from readoff.engine.text import Text

TEAM = Choice(instructions="Which team?", criteria={"billing": "Money", "sales": None, "tech": {}})
ANGER = Score(criteria=["Calm", "Cross", "Furious"])
DUE = Noul(instructions="A refund is due.")
QUESTIONS: Mapping[str, Question] = {"team": TEAM, "anger": ANGER, "due": DUE}

MERITS = {"billing": 0.4, "sales": 1.0, "tech": 0.0, "0": 0.0, "1": 1.2, "2": 0.7}
MERITS |= {"true": 0.5, "false": 0.0}
"""What an unprejudiced model would answer about any state but the content-free one."""
PLACES = (2.0, 0.0, -0.5, 0.3)
"""What it adds to the option in each place, whatever the state."""


class Model:
    """Logits of merit plus place; remembers what it was asked."""

    def __init__(
        self, merit: Callable[[Text], float] = lambda state: state != CONTENT_FREE
    ) -> None:
        self.asked: list[tuple[Text, Mapping[str, Question]]] = []
        self.merit = merit

    def __call__(self, requests: Sequence[tuple[Text, Mapping[str, Question]]]) -> list[Decision]:
        self.asked += requests
        return [self.decide(state, questions) for state, questions in requests]

    def decide(self, state: Text, questions: Mapping[str, Question]) -> Decision:
        answers: dict[str, Answer] = {}
        for name, question in questions.items():
            z = [
                self.merit(state) * MERITS[option] + PLACES[place]
                for place, option in enumerate(question.options)
            ]
            answers[name] = build_answer(question, z, probabilities(z).tolist(), 0.25)
        return Decision(answers, Usage(10, 8, 2), 1.0, "made-up")


def run(mode: Debias, card: Card | None = None, **options: Any) -> tuple[Model, Decision]:
    model = Model()
    requests: list[tuple[Text, Mapping[str, Question]]] = [("state", QUESTIONS)]
    (found,) = debiased(model, requests, mode, card or Card.default(), Priors(), **options)
    return model, found


def fair(question: Question) -> list[float]:
    return probabilities([MERITS[option] for option in question.options]).tolist()


@pytest.mark.parametrize(
    ("options", "rotations", "expected"),
    [
        (2, 4, (0, 1)),
        (7, 4, (0, 1, 3, 5)),
        (8, 4, (0, 2, 4, 6)),
        (7, 7, (0, 1, 2, 3, 4, 5, 6)),
        (255, 1, (0,)),
    ],
)
def test_shifts_are_spread_evenly(options: int, rotations: int, expected: tuple[int, ...]) -> None:
    assert shifts(options, rotations) == expected


def test_a_rotation_keeps_every_option_and_description() -> None:
    turned = rotated(TEAM, 1)
    assert turned.options == ("sales", "tech", "billing")
    assert (turned.criteria, turned.instructions) == (TEAM.criteria, TEAM.instructions)


def test_only_choices_are_rotated_and_nothing_is_asked_twice() -> None:
    found = expand(QUESTIONS, "rotate", 3)
    assert {name: len(keys) for name, keys in found.orders.items()} == {
        "team": 3,
        "anger": 1,
        "due": 1,
    }
    assert len(found.asked) == len({fingerprint(q) for q in found.asked.values()}) == 5
    assert set(found.asked).isdisjoint(QUESTIONS), "a card's fields mustn't match"
    assert list(expand(QUESTIONS, "prior").asked.values()) == list(QUESTIONS.values())


@pytest.mark.parametrize("rotations", [0, -1, True, 2.0])
def test_rotations_that_are_none_are_refused(rotations: Any) -> None:
    with pytest.raises(QuestionError, match="1 or more"):
        expand(QUESTIONS, "rotate", rotations)


def test_questions_that_are_none_are_refused() -> None:
    with pytest.raises(QuestionError, match="no question"):
        expand({}, "both")


def test_none_is_the_plain_answer() -> None:
    model, found = run("none")
    assert dict(found) == dict(Model().decide("state", QUESTIONS))
    assert len(model.asked) == 1


def test_a_content_free_prior_takes_the_prejudice_away() -> None:
    model, found = run("prior")
    assert [state for state, _ in model.asked] == ["state", *[CONTENT_FREE] * 3]
    team, anger, due = found.values()
    assert isinstance(team, ChoiceAnswer)
    assert isinstance(anger, ScoreAnswer)
    assert isinstance(due, NoulAnswer)
    assert run("none")[1]["team"].choice == "billing"  # type: ignore[union-attr]
    assert team.choice == "sales"
    assert list(team.probabilities.values()) == pytest.approx(fair(TEAM), abs=1e-12)
    assert list(anger.probabilities.values()) == pytest.approx(fair(ANGER), abs=1e-12)
    assert due.noul == pytest.approx(fair(DUE)[0], abs=1e-12)
    assert team.logits["billing"] == pytest.approx(0.4 + 2.0), "the returned logits are raw"


def test_as_many_rotations_as_options_take_the_places_away() -> None:
    model, found = run("rotate")
    assert len(model.asked) == 1, "the state is shared: one request"
    team = found["team"]
    assert isinstance(team, ChoiceAnswer)
    assert list(team.probabilities.values()) == pytest.approx(fair(TEAM), abs=1e-12)
    plain = Model().decide("state", QUESTIONS)
    assert (found["anger"], found["due"]) == (plain["anger"], plain["due"])
    assert team.legal_mass == pytest.approx(0.25)


def test_rotation_averages_in_log_space() -> None:
    orders = [rotated(TEAM, by) for by in shifts(3)]
    each = [Model().decide("s", {"q": order})["q"] for order in orders]
    logs = [
        [np.log(answer.probabilities[option]) for option in TEAM.options]
        for answer in each
        if isinstance(answer, ChoiceAnswer)
    ]
    expected = np.exp(np.mean(logs, axis=0))
    team = run("rotate")[1]["team"]
    assert isinstance(team, ChoiceAnswer)
    assert list(team.probabilities.values()) == pytest.approx(
        (expected / expected.sum()).tolist(), abs=1e-12
    )


def test_both_measures_a_prior_in_every_order() -> None:
    model, found = run("both", rotations=2)
    assert len(model.asked) == 1 + (2 + 1 + 1)
    team = found["team"]
    assert isinstance(team, ChoiceAnswer)
    assert list(team.probabilities.values()) == pytest.approx(fair(TEAM), abs=1e-12)


def test_the_order_of_the_options_no_longer_matters() -> None:
    def answer(mode: Debias, question: Choice) -> Answer:
        (found,) = debiased(Model(), [("s", {"q": question})], mode, Card(), Priors())
        return found["q"]

    backwards = Choice(
        instructions=TEAM.instructions, criteria=dict(list(TEAM.criteria.items())[::-1])
    )
    changed = {}
    for mode in DEBIAS:
        a, b = answer(mode, TEAM), answer(mode, backwards)
        assert isinstance(a, ChoiceAnswer)
        assert isinstance(b, ChoiceAnswer)
        changed[mode] = max(abs(a.probabilities[o] - b.probabilities[o]) for o in TEAM.options)
    assert changed["none"] > 0.5
    assert max(changed["prior"], changed["rotate"], changed["both"]) < 1e-12


def test_a_prior_is_measured_once_a_question() -> None:
    model, priors = Model(), Priors()
    for mode in ("prior", "prior", "both"):
        debiased(model, [("a", QUESTIONS), ("b", QUESTIONS)], mode, Card(), priors)
    free = [questions for state, questions in model.asked if state == CONTENT_FREE]
    assert len(free) == 3 + 2, "both adds two more orders of the choice"


def test_content_free_tokens_count_for_the_request_that_needed_them_first() -> None:
    priors = Priors()
    requests = [("a", {"due": DUE}), ("b", QUESTIONS)]
    first = debiased(Model(), requests, "prior", Card(), priors)
    assert [d.usage for d in first] == [Usage(20, 16, 4), Usage(30, 24, 6)]
    again = debiased(Model(), requests, "prior", Card(), priors)
    assert [d.usage for d in again] == [Usage(10, 8, 2)] * 2


def test_forgotten_priors_are_measured_again() -> None:
    model, priors = Model(), Priors(limit=1)
    for _ in range(2):
        (found,) = debiased(model, [("a", QUESTIONS)], "prior", Card(), priors)
        assert found["due"] == run("prior")[1]["due"]
    assert len(model.asked) == (1 + 3) + (1 + 2), "the last one was kept"


def test_fingerprints_tell_apart_what_the_model_reads() -> None:
    different = [
        TEAM,
        rotated(TEAM, 1),
        Choice(criteria=TEAM.criteria),
        Choice(instructions="Which team?", criteria={"billing": "Money", "sales": "", "tech": {}}),
        Noul(),
        Noul(criteria={}),
        Noul(criteria={"true": None}),
        Score(criteria=["a", "b"]),
        Score(criteria=["b", "a"]),
    ]
    assert len(set(map(fingerprint, different))) == len(different)
    same = Choice(instructions="Which team?", criteria=dict(TEAM.criteria))
    assert fingerprint(same) == fingerprint(TEAM)


def test_the_cards_temperature_applies_after_and_its_prior_where_nothing_was_measured() -> None:
    card = Card(
        temperature=Temperature(by_field={"due": 2.0}), prior=Prior(by_field={"due": (1.0, 0.0)})
    )
    # Raw logits of (true, false): (0.5 + 2, 0); places (2, 0); merits (0.5, 0).
    for mode, logit in (("none", 1.5), ("rotate", 1.5), ("prior", 0.5), ("both", 0.5)):
        due = run(mode, card)[1]["due"]
        assert isinstance(due, NoulAnswer)
        assert due.noul == pytest.approx(1 / (1 + np.exp(-logit / 2.0)), abs=1e-12), mode
    same = Card(temperature=card.temperature, prior=card.prior, debias="prior")
    due = run("prior", same)[1]["due"]
    assert isinstance(due, NoulAnswer)
    assert due.noul == pytest.approx(1 / (1 + np.exp(0.5 / 2.0)), abs=1e-12), "fitted under it"


def test_a_prior_for_another_number_of_options_is_an_error() -> None:
    card = Card(prior=Prior(by_field={"team": (0.0, 0.0)}))
    with pytest.raises(QuestionError, match="is for 2 options"):
        run("rotate", card)


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.lists(st.floats(-30, 30), min_size=4, max_size=4), min_size=4, max_size=4),
    st.floats(0.1, 10),
    st.sampled_from(DEBIAS),
)
def test_the_score_is_the_mean_of_the_probabilities_and_the_choice_their_best(
    logits: list[list[float]], temperature: float, mode: Debias
) -> None:
    levels = Score(criteria=["a", "b", "c", "d"])
    options = Choice(criteria=dict.fromkeys("abcd"))
    expansion = expand({"s": levels, "c": options}, mode)
    answers = {
        key: build_answer(question, row, probabilities(row).tolist())
        for (key, question), row in zip(expansion.asked.items(), [*logits, *logits], strict=False)
    }
    free = {key: answer.logits for key, answer in reversed(answers.items())}
    card = Card(temperature=Temperature(choice=temperature, score=temperature))
    found = merge(expansion, answers, free, card, mode)
    score, choice = found["s"], found["c"]
    assert isinstance(score, ScoreAnswer)
    assert isinstance(choice, ChoiceAnswer)
    mean = sum(int(level) * p for level, p in score.probabilities.items())
    assert abs(score.score - mean) <= 1e-12
    assert choice.probabilities[choice.choice] == max(choice.probabilities.values())
    assert sum(choice.probabilities.values()) == pytest.approx(1)


def test_cards_keep_their_debiasing_and_refuse_an_unknown_one() -> None:
    for mode in DEBIAS:
        card = Card(debias=mode)
        assert Card.parse(card.to_json()) == card
    assert "debias" not in Card.default().to_json()
    with pytest.raises(CardError, match='"debias" must be one of'):
        Card.parse({"version": 1, "debias": "rotation"})
