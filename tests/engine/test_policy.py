"""What a card says is done unless the call says otherwise; what can't be done is told at once."""

from __future__ import annotations

from typing import Any

import pytest

from readoff.engine.answers import ChoiceAnswer, Decision, stated_answer
from readoff.engine.card import Card
from readoff.engine.debias import CONTENT_FREE
from readoff.engine.errors import CardError, ReadoffError
from readoff.engine.gate import Gate
from readoff.engine.policy import Policy
from tests.engine.test_debias import QUESTIONS, TEAM, Model


def run(card: Card, **options: Any) -> tuple[Model, Decision]:
    model = Model()
    (found,) = Policy(card).decide(model, [("state", QUESTIONS)], **options)
    return model, found


def test_the_default_card_asks_and_adds_nothing() -> None:
    model, found = run(Card.default())
    assert model.asked == [("state", QUESTIONS)]
    assert found.verdicts == {}
    assert Policy(Card.default()).plan().plain


def test_the_cards_debiasing_is_done_unless_the_call_names_another() -> None:
    card = Card(debias="prior")
    assert len(run(card)[0].asked) == 1 + 3
    assert len(run(card, debias="none")[0].asked) == 1
    assert [state for state, _ in run(card, debias="rotate")[0].asked] == ["state"]
    assert not Policy(card).plan().plain
    assert Policy(card).plan(debias="none").plain


def test_the_cards_gate_counts_unless_the_call_names_another() -> None:
    card = Card(gate={"threshold": 1.0})
    assert not any(v.accept for v in run(card)[1].verdicts.values())
    assert all(v.accept for v in run(card, gate=0.0)[1].verdicts.values())
    assert all(v.accept for v in run(Card(), gate=Gate(0.0))[1].verdicts.values())
    assert Policy(card).plan().plain


def test_the_cards_gate_is_not_applied_under_another_debiasing() -> None:
    """It was fitted to probabilities that such a call doesn't have."""
    card = Card(debias="rotate", gate={"threshold": 0.0}, rotations=3)
    for same in ({}, {"debias": "rotate"}, {"rotations": 3}, {"debias": None, "rotations": None}):
        assert run(card, **same)[1].verdicts, same
    for other in ({"debias": "none"}, {"debias": "prior"}, {"debias": "both"}, {"rotations": 2}):
        assert run(card, **other)[1].verdicts == {}, other
        assert run(card, gate=0.0, **other)[1].verdicts, other
        with pytest.raises(ReadoffError, match=r'fitted under debias="rotate" \(rotations=3\)'):
            run(card, escalate=lambda *_: pytest.fail("asked"), **other)
    assert run(Card(gate={"threshold": 0.0}), rotations=2)[1].verdicts, "nothing is rotated"
    assert Policy(card).plan(debias="none").plain


def test_the_cards_rotations_are_asked_unless_the_call_says_otherwise() -> None:
    def orders(card: Card, **options: Any) -> int:
        ((_, asked),) = run(card, **options)[0].asked
        return len(asked) - 2

    assert orders(Card(debias="rotate", rotations=2)) == 2
    assert orders(Card(debias="rotate", rotations=2), rotations=1) == 1
    assert orders(Card(debias="rotate")) == 3, "as many as there are options"
    assert orders(Card(), debias="rotate", rotations=2) == 2


def test_what_debiasing_makes_unsure_is_escalated() -> None:
    """The gate looks at the probabilities that would be returned."""
    asked = []

    def escalate(state: Any, question: Any) -> Any:
        asked.append((state, question))
        return stated_answer(question, question.options[0])

    sure = run(Card(), gate=0.6)[1].verdicts["team"]
    _, found = run(Card(), debias="rotate", gate=0.6, escalate=escalate)
    assert sure.accept
    assert found.verdicts["team"].given_by == "escalation"
    assert ("state", TEAM) in asked, "the question as it was asked, not a rotation of it"
    assert CONTENT_FREE not in [state for state, _ in asked]
    team = found["team"]
    assert isinstance(team, ChoiceAnswer)
    assert team.choice == "billing"


def test_priors_are_remembered_from_call_to_call() -> None:
    model, policy = Model(), Policy(Card(debias="prior"))
    for _ in range(3):
        policy.decide(model, [("state", QUESTIONS)])
    assert len(model.asked) == 3 + 3


def test_what_can_not_be_done_is_told_before_anything_is_asked() -> None:
    model, requests = Model(), [("state", QUESTIONS)]
    policy = Policy(Card.default())
    with pytest.raises(ReadoffError, match="no gate"):
        policy.decide(model, requests, escalate=lambda *_: pytest.fail("asked"))
    with pytest.raises(CardError, match="debias must be one of"):
        policy.decide(model, requests, debias="rotation")  # type: ignore[arg-type]
    with pytest.raises(CardError, match="from 0 to 1"):
        policy.decide(model, requests, gate=1.5)
    with pytest.raises(ReadoffError, match="timeout"):
        policy.decide(model, requests, gate=0.5, timeout=0.0)
    with pytest.raises(ReadoffError, match="limit"):
        policy.decide(model, requests, limit=0)
    with pytest.raises(ReadoffError, match="rotations"):
        policy.decide(model, requests, rotations=0)
    with pytest.raises(ReadoffError, match="must be callable"):
        policy.decide(model, requests, gate=0.5, escalate="http://h")  # type: ignore[arg-type]
    with pytest.raises(CardError, match='an entry "accept"'):
        Policy(Card(gate={"accept": 0.9}))
    assert model.asked == []
