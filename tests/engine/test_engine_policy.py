"""Debiasing, gate and escalation where users meet them: in the engine's calls."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterator
from dataclasses import replace

import pytest

from readoff.engine.answers import Answer, ChoiceAnswer, ScoreAnswer, stated_answer
from readoff.engine.card import Card
from readoff.engine.card_fields import Debias, Temperature
from readoff.engine.debias import CONTENT_FREE, rotated, shifts
from readoff.engine.engine import Engine
from readoff.engine.errors import CardError, ContextError, NumericsError, ReadoffError
from readoff.engine.gate import Gate
from readoff.engine.questions import Choice, Question
from readoff.engine.text import Text
from tests.engine.models_on_disk import ASKED, STATE, TEAM, save_decider

HOT = Card(temperature=Temperature(choice=0.5, score=2.0, noul=1.5))


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    folder = tmp_path_factory.mktemp("model")
    save_decider(folder, "qwen3_5")
    with Engine.from_pretrained(folder, dtype="fp32", card=HOT) as made:
        yield made


def with_card(engine: Engine, **fields: object) -> Engine:
    return Engine(engine.backbone, engine.renderer, replace(HOT, **fields))  # type: ignore[arg-type]


def logits(answer: Answer) -> list[float]:
    return list(answer.logits.values())


def test_the_prior_is_what_the_model_says_of_nothing(engine: Engine) -> None:
    free = engine.decide(CONTENT_FREE, {"team": TEAM})["team"]
    plain = engine.decide(STATE, {"team": TEAM})["team"]
    found = engine.decide(STATE, {"team": TEAM}, debias="prior")["team"]
    assert isinstance(found, ChoiceAnswer)

    shifted = [(z - b) / 0.5 for z, b in zip(logits(plain), logits(free), strict=True)]
    total = sum(math.exp(z) for z in shifted)
    expected = [math.exp(z) / total for z in shifted]
    assert list(found.probabilities.values()) == pytest.approx(expected, abs=1e-5)


def test_rotation_averages_the_orders(engine: Engine) -> None:
    found = engine.decide(STATE, {"team": TEAM}, debias="rotate", rotations=3)["team"]
    assert isinstance(found, ChoiceAnswer)
    orders = [engine.decide(STATE, {"q": rotated(TEAM, by)})["q"].logits for by in shifts(3, 3)]
    mean = {name: sum(order[name] for order in orders) / 3 for name in TEAM.criteria}
    assert dict(found.logits) == pytest.approx(mean, abs=1e-5)
    assert list(found.probabilities) == list(TEAM.criteria)


@pytest.mark.parametrize("debias", ["none", "prior", "rotate", "both"])
def test_scores_come_from_the_probabilities_returned(engine: Engine, debias: Debias) -> None:
    for decision in engine.decide_many([(STATE, ASKED), ("x", ASKED)], debias=debias):
        anger = decision["anger"]
        assert isinstance(anger, ScoreAnswer)
        levels = enumerate(anger.probabilities.values())
        assert anger.score == pytest.approx(sum(i * p for i, p in levels), abs=1e-6)
        assert list(decision) == list(ASKED)


def test_the_state_is_computed_once_for_all_orders(engine: Engine) -> None:
    fresh = engine.with_serving(engine.serving)
    once = fresh.decide("A state. " * 20, {"team": TEAM}).usage
    other = engine.with_serving(engine.serving)
    turned = other.decide("A state. " * 20, {"team": TEAM}, debias="rotate", rotations=3).usage
    state = other.prefill("A state. " * 20)
    assert state.computed_tokens == 0
    question = once.input_tokens - state.input_tokens
    assert turned.computed_tokens == state.input_tokens + 3 * question


def test_a_card_s_gate_and_debiasing_apply_by_themselves(engine: Engine) -> None:
    gated = with_card(engine, gate=Gate(0.5, by_field={"team": None}).to_json())
    for decision in (
        gated.decide(STATE, ASKED),
        gated.submit(STATE, ASKED).result(),
        asyncio.run(gated.adecide(STATE, ASKED)),
        gated.decide_many([(STATE, ASKED)])[0],
    ):
        assert decision.verdicts["team"].accept is False
        assert decision.verdicts["refund"].accept is True
    assert engine.decide(STATE, ASKED).verdicts == {}
    assert gated.decide(STATE, ASKED, gate=0.0).verdicts["team"].accept is True
    debiased = with_card(engine, debias="prior")
    one, other = debiased.decide(STATE, ASKED), engine.decide(STATE, ASKED, debias="prior")
    assert one["team"].probabilities == pytest.approx(other["team"].probabilities, abs=1e-6)  # type: ignore[union-attr]
    plain = debiased.decide(STATE, ASKED, debias="none")
    assert plain["refund"].noul == pytest.approx(engine.decide(STATE, ASKED)["refund"].noul)  # type: ignore[union-attr]
    with pytest.raises(ReadoffError, match="submit can't"):
        debiased.submit(STATE, ASKED)


def test_only_what_the_gate_turns_away_is_escalated(engine: Engine) -> None:
    asked: list[str] = []

    def slow(state: Text, question: Question) -> Answer:
        assert state == STATE
        asked.append(question.type)
        if not isinstance(question, Choice):
            raise RuntimeError("no idea")
        return stated_answer(question, "sales")

    gate = Gate(1.0, by_type={"score": 0.0})
    for decision in (
        engine.decide(STATE, ASKED, gate=gate, escalate=slow),
        asyncio.run(engine.adecide(STATE, ASKED, gate=gate, escalate=slow)),
    ):
        assert sorted(asked) == ["choice", "choice", "noul", "noul"]
        assert decision["team"].choice == "sales"  # type: ignore[union-attr]
        assert decision.verdicts["team"].given_by == "escalation"
        assert decision.verdicts["anger"].given_by == "model"
        assert decision.verdicts["anger"].accept is True
        failed = decision.verdicts["refund"]
        assert (failed.accept, failed.given_by) == (False, "model")
        assert "no idea" in (failed.failure or "")


@pytest.mark.parametrize("debias", ["none", "prior", "rotate", "both"])
def test_errors_name_the_users_question_and_request(engine: Engine, debias: Debias) -> None:
    long = "word " * (engine.context_length + 1)
    with pytest.raises(ContextError, match="'team'") as one:
        engine.decide(long, {"team": TEAM}, debias=debias)
    with pytest.raises(ContextError, match="'team'") as two:
        engine.decide_many([(STATE, {"team": TEAM}), (long, {"team": TEAM})], debias=debias)
    for told in (str(one.value), str(two.value)):
        assert "x00" not in told
        assert "'q'" not in told
    assert "equest 0" not in str(one.value)
    assert "equest 1" in str(two.value)
    endless = Choice(instructions=long, criteria={"a": None, "b": None})
    with pytest.raises(ContextError, match="'endless'"):
        engine.decide("", {"endless": endless}, debias=debias)


def test_numbers_that_are_none_name_the_users_question(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> Answer:
        raise NumericsError("not finite.")

    monkeypatch.setattr("readoff.engine.asking.build_answer", fail)
    with pytest.raises(NumericsError, match="Question 'team': not finite"):
        engine.decide(STATE, {"team": TEAM}, debias="rotate")
    with pytest.raises(NumericsError, match="Question 'team' of request 0: not finite"):
        engine.decide_many([(STATE, {"team": TEAM})] * 2, debias="rotate")


def test_adecide_refuses_what_decide_refuses(engine: Engine) -> None:
    for bad in ({"escalate_limit": 0}, {"escalate_timeout": -1.0}, {"escalate": 3}):
        with pytest.raises(ReadoffError, match="scalation"):
            asyncio.run(engine.adecide(STATE, ASKED, **bad))
        with pytest.raises(ReadoffError, match="scalation"):
            engine.decide(STATE, ASKED, **bad)


def test_bad_settings_are_said_before_anything_runs(engine: Engine) -> None:
    with pytest.raises(CardError, match="debias"):
        engine.decide(STATE, ASKED, debias="magic")  # type: ignore[arg-type]
    with pytest.raises(ReadoffError):
        engine.decide(STATE, ASKED, gate=1.5)
    with pytest.raises(ReadoffError, match="no gate"):
        engine.decide(STATE, ASKED, escalate=lambda state, question: None)  # type: ignore[arg-type,return-value]
    with pytest.raises(CardError):
        with_card(engine, gate={"threshold": "high"})
