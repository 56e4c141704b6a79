"""Escalation: only what was turned away, at once, within its time, and never silently."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from readoff.engine.answers import (
    Answer,
    ChoiceAnswer,
    Decision,
    NoulAnswer,
    ScoreAnswer,
    Usage,
    build_answer,
    stated_answer,
)
from readoff.engine.errors import NumericsError, ReadoffError
from readoff.engine.escalation import Escalate, gated
from readoff.engine.gate import Gate
from readoff.engine.questions import Choice, Noul, Question, Score
from readoff.engine.text import Text
from readoff.engine.wire import dumps, render_response

TEAM = Choice(criteria={"billing": None, "sales": None, "tech": None})
ANGER = Score(criteria=["Calm", "Cross", "Furious"])
QUESTIONS: Mapping[str, Question] = {"team": TEAM, "anger": ANGER, "due": Noul()}
GATE = Gate(0.9)


def decide(sure: Sequence[str] = (), states: Sequence[Text] = ("s",)) -> tuple[Any, list[Decision]]:
    """(requests, decisions that are sure of these questions and of no others)."""
    answers: dict[str, Answer] = {}
    for name, question in QUESTIONS.items():
        n = len(question.options)
        top = 0.95 if name in sure else 0.6
        answers[name] = build_answer(question, [0.0] * n, [top, *[(1 - top) / (n - 1)] * (n - 1)])
    usage = Usage(9, 9, 0)
    return [(s, QUESTIONS) for s in states], [Decision(answers, usage, 2.0, "m") for _ in states]


def last(state: Text, question: Question) -> Answer:
    """Always the last option."""
    return stated_answer(question, question.options[-1])


def run(escalate: Escalate, **bounds: Any) -> Decision:
    return gated(*decide(), GATE, escalate, **bounds)[0]


def test_without_a_gate_decisions_come_back_as_they_are() -> None:
    requests, decisions = decide()
    assert gated(requests, decisions, None) == decisions
    assert decisions[0].verdicts == {}
    with pytest.raises(ReadoffError, match="no gate"):
        gated(requests, decisions, None, last)


def test_without_an_escalation_answers_are_marked_and_kept() -> None:
    requests, decisions = decide(sure=["team"])
    (found,) = gated(requests, decisions, GATE)
    assert {name: verdict.accept for name, verdict in found.verdicts.items()} == {
        "team": True,
        "anger": False,
        "due": False,
    }
    assert dict(found) == dict(decisions[0])
    assert {verdict.given_by for verdict in found.verdicts.values()} == {"model"}


def test_only_what_was_turned_away_is_asked_and_the_answers_merge() -> None:
    asked: list[tuple[Text, Question]] = []

    def escalate(state: Text, question: Question) -> Answer:
        asked.append((state, question))
        return last(state, question)

    requests, decisions = decide(sure=["anger"], states=["one", ["two"]])
    found = gated(requests, decisions, GATE, escalate)
    assert sorted(map(str, asked)) == sorted(
        map(str, [("one", TEAM), ("one", Noul()), (["two"], TEAM), (["two"], Noul())])
    )
    for decision in found:
        assert list(decision) == list(QUESTIONS)
        team, anger, due = decision.values()
        assert isinstance(team, ChoiceAnswer)
        assert (team.choice, team.probabilities["tech"]) == ("tech", 1.0)
        assert isinstance(due, NoulAnswer)
        assert due.noul == 0.0
        assert anger is decisions[0]["anger"]
        by = {name: verdict.given_by for name, verdict in decision.verdicts.items()}
        assert by == {"team": "escalation", "anger": "model", "due": "escalation"}
        assert decision.latency_ms > 2.0


def test_nothing_is_asked_when_everything_passes() -> None:
    requests, decisions = decide(sure=list(QUESTIONS))
    (found,) = gated(requests, decisions, GATE, lambda *_: pytest.fail("asked"))
    assert all(verdict.accept for verdict in found.verdicts.values())
    assert found.latency_ms == 2.0


def test_questions_are_asked_at_once_but_no_more_than_the_limit() -> None:
    lock, busy, busiest = threading.Lock(), 0, 0

    def escalate(state: Text, question: Question) -> Answer:
        nonlocal busy, busiest
        with lock:
            busy += 1
            busiest = max(busiest, busy)
        time.sleep(0.02)
        with lock:
            busy -= 1
        return last(state, question)

    requests, decisions = decide(states=["a", "b", "c", "d"])
    found = gated(requests, decisions, GATE, escalate, limit=3)
    assert all(v.given_by == "escalation" for d in found for v in d.verdicts.values())
    assert busiest == 3


def test_a_failure_leaves_the_models_answer_marked() -> None:
    def escalate(state: Text, question: Question) -> Answer:
        if question.type == "score":
            raise ConnectionError("no route\n to host")
        return last(state, question)

    found = run(escalate)
    verdict = found.verdicts["anger"]
    assert (verdict.accept, verdict.given_by) == (False, "model")
    assert verdict.failure == "ConnectionError: no route to host"
    assert found["anger"] == decide()[1][0]["anger"]
    assert found.verdicts["team"].given_by == "escalation"


def test_one_that_hangs_is_given_up_and_the_others_are_not() -> None:
    release = threading.Event()

    def escalate(state: Text, question: Question) -> Answer:
        if question.type == "choice":
            release.wait(10.0)
        return last(state, question)

    begun = time.monotonic()
    found = run(escalate, limit=1, timeout=0.1)
    assert time.monotonic() - begun < 5.0
    release.set()
    assert found.verdicts["team"].failure == "no answer within 0.1 s"
    assert found["team"] == decide()[1][0]["team"]
    assert found.verdicts["anger"].given_by == found.verdicts["due"].given_by == "escalation"


class LoudError(Exception):
    """With a text of thousands of letters."""

    def __str__(self) -> str:
        return "x" * 5000


def test_a_failure_is_told_in_one_short_line() -> None:
    def escalate(state: Text, question: Question) -> Answer:
        raise LoudError

    assert len(run(escalate).verdicts["due"].failure or "") == 300


def wrong(name: str) -> Any:
    uniform = {"billing": 0.4, "sales": 0.3, "tech": 0.3}
    legend = dict(zip("012", ("Calm", "Cross", "Furious"), strict=True))
    return {
        "another type": NoulAnswer(0.5, {}),
        "no answer": "billing",
        "other options": ChoiceAnswer("billing", {"billing": 0.6, "sales": 0.4}, 0.0, {}),
        "no distribution": ChoiceAnswer("billing", uniform | {"billing": 0.9}, 0.0, {}),
        "not the best": ChoiceAnswer("tech", uniform, 0.0, {}),
        "nan": ChoiceAnswer("billing", uniform | {"billing": float("nan")}, 0.0, {}),
        "confidence": ChoiceAnswer("billing", uniform, float("nan"), {}),
        "text": ChoiceAnswer("billing", uniform, "high", {}),  # type: ignore[arg-type]
        "surer than sure": ChoiceAnswer("billing", uniform, 1.5, {}),
        "mass": ChoiceAnswer("billing", uniform, 0.1, {}, legal_mass=float("inf")),
        "no JSON": ChoiceAnswer("billing", {**uniform, "tech": np.float32(0.3)}, 0.1, {}),  # type: ignore[dict-item]
        "score": ScoreAnswer(2.0, {"0": 1.0, "1": 0.0, "2": 0.0}, legend, 1.0, {}),
    }[name]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("another type", "the question is a choice, and the answer a noul"),
        ("no answer", "an answer was expected, not str"),
        ("other options", "other options"),
        ("no distribution", "no distribution"),
        ("nan", "no distribution"),
        ("not the best", "not its most probable"),
        ("confidence", "confidence is no number"),
        ("text", "confidence is no number"),
        ("surer than sure", "confidence is no number"),
        ("mass", "legal mass is no number"),
        ("no JSON", "no distribution"),
    ],
)
def test_an_answer_that_can_not_stand_in_is_a_failure(name: str, message: str) -> None:
    found = run(lambda *_: wrong(name))
    assert message in (found.verdicts["team"].failure or "")
    assert found.verdicts["team"].given_by == "model"
    assert dumps(render_response(found, "m"))


@pytest.mark.parametrize("legend", [{"0": "Calm"}, {"0": 1, "1": 2, "2": 3}, ["0", "1", "2"]])
def test_a_legend_that_is_none_is_a_failure(legend: Any) -> None:
    answer = ScoreAnswer(0.0, {"0": 1.0, "1": 0.0, "2": 0.0}, legend, 1.0, {})
    found = run(lambda *_: answer)
    assert found.verdicts["anger"].failure
    assert dumps(render_response(found, "m"))


def test_one_that_wants_to_end_the_process_fails_at_once() -> None:
    def escalate(state: Text, question: Question) -> Answer:
        sys.exit("I am leaving")

    begun = time.monotonic()
    found = run(escalate, timeout=20.0)
    assert time.monotonic() - begun < 5.0
    assert {v.failure for v in found.verdicts.values()} == {"SystemExit: I am leaving"}


def test_a_failure_without_a_usable_text_is_a_failure_too() -> None:
    class MuteError(Exception):
        def __str__(self) -> str:
            raise ValueError

    def escalate(state: Text, question: Question) -> Answer:
        raise MuteError if question.type == "noul" else RuntimeError("half \ud800")

    found = run(escalate, timeout=20.0)
    assert found.verdicts["due"].failure == "MuteError: (no text)"
    assert found.verdicts["team"].failure == "RuntimeError: half ?"
    assert dumps(render_response(found, "m")).encode()


def test_what_can_not_be_called_is_told_before_anything_runs() -> None:
    for escalate in ("http://h:1", 3, last("s", TEAM)):
        with pytest.raises(ReadoffError, match="must be callable"):
            run(escalate)  # type: ignore[arg-type]


def test_a_score_must_be_the_mean_of_its_own_probabilities() -> None:
    found = run(lambda *_: wrong("score"))
    assert "not the mean level" in (found.verdicts["anger"].failure or "")


@pytest.mark.parametrize(
    "bounds", [{"limit": 0}, {"limit": True}, {"timeout": 0}, {"timeout": float("nan")}]
)
def test_bounds_that_are_none_are_refused(bounds: dict[str, Any]) -> None:
    with pytest.raises(ReadoffError, match="escalation's"):
        run(last, **bounds)
    with pytest.raises(ReadoffError, match="escalation's"):
        gated(*decide(), None, **bounds)


def test_a_stated_answer_is_certain_and_consistent() -> None:
    score = stated_answer(ANGER, "1")
    assert isinstance(score, ScoreAnswer)
    assert (score.score, score.confidence, score.legend["1"]) == (1.0, 1.0, "Cross")
    assert stated_answer(Noul(), "true") == NoulAnswer(1.0, {})
    with pytest.raises(NumericsError, match="none of the options"):
        stated_answer(TEAM, "other")
