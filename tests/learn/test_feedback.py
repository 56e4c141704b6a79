"""Escalated answers as rows: what is taken, what is left out, and that training reads them."""

from __future__ import annotations

from collections.abc import Mapping

from readoff.engine.answers import Answer, Decision, Usage, Verdict, build_answer, stated_answer
from readoff.engine.questions import Question
from readoff.learn.examples import parse_example
from readoff.learn.feedback import feedback_line, feedback_row
from tests.engine.models_on_disk import ANGER, ASKED, REFUND, STATE, TEAM


def decided(answers: Mapping[str, Answer], verdicts: Mapping[str, Verdict]) -> Decision:
    return Decision(answers, Usage(9, 9, 0), 1.0, "model", verdicts)


def soft(question: Question, p: list[float]) -> Answer:
    return build_answer(question, [0.0] * len(p), p)


OURS = Verdict(True)
THEIRS = Verdict(False, "escalation")
FAILED = Verdict(False, failure="no answer within 30 s")


def test_a_row_that_training_reads() -> None:
    answers = {
        "team": stated_answer(TEAM, "tech"),
        "anger": soft(ANGER, [0.1, 0.2, 0.7]),
        "refund": soft(REFUND, [0.75, 0.25]),
    }
    line = feedback_line(STATE, ASKED, decided(answers, dict.fromkeys(answers, THEIRS)))
    assert line is not None
    assert "\n" not in line
    row = parse_example(line.encode(), "feedback, line 1")
    assert row.targets == {
        "team": (0.0, 1.0, 0.0),
        "anger": (0.1, 0.2, 0.7),
        "refund": (0.75, 0.25),
    }
    assert row.state == STATE
    assert dict(row.questions) == dict(ASKED)
    assert set(row.weights.values()) == {0.5}
    assert row.source == "escalation"


def test_only_what_the_slow_system_answered() -> None:
    answers = {name: soft(q, [1.0] + [0.0] * (len(q.options) - 1)) for name, q in ASKED.items()}
    verdicts = {"team": OURS, "anger": THEIRS, "refund": FAILED}
    row = feedback_row(STATE, ASKED, decided(answers, verdicts), family="tone")
    assert row is not None
    assert list(row["questions"]) == list(row["answers"]) == ["anger"]  # type: ignore[call-overload]
    assert row["answers"] == {"anger": 0}
    assert row["family"] == "tone"


def test_nothing_to_learn() -> None:
    answers = {"team": stated_answer(TEAM, "tech")}
    for verdicts in ({}, {"team": OURS}, {"team": FAILED}):
        assert feedback_row(STATE, ASKED, decided(answers, verdicts)) is None
        assert feedback_line(STATE, ASKED, decided(answers, verdicts)) is None
