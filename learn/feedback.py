"""Feedback: what a gate turned away and a slow system answered, as rows to train on.

A service that escalates calls `feedback_row` with each request and its decision, and appends what
comes back to a file. `readoff train` takes that file as it is: the rows' source is "escalation",
so that they weigh half unless they say otherwise, because a model labelled them. The rows hold the
user's text; nothing is kept unless the service writes it down.
"""

from __future__ import annotations

from collections.abc import Mapping

from readoff.bench.quality.jsonl import ESCALATION
from readoff.bench.quality.labels import normalised, render_label
from readoff.engine.answers import Answer, Decision, NoulAnswer
from readoff.engine.questions import Question
from readoff.engine.text import Text
from readoff.engine.wire import dumps


def feedback_row(
    state: Text,
    questions: Mapping[str, Question],
    decision: Decision,
    *,
    family: str | None = None,
) -> dict[str, object] | None:
    """The row for the questions whose answers an escalation gave, None where it gave none.

    What the model answered itself, and what no escalation could answer, is no label and is left
    out. A slow system's probabilities become a soft label.
    """
    given = {
        name: decision[name]
        for name, verdict in decision.verdicts.items()
        if verdict.given_by == "escalation"
    }
    if not given:
        return None
    row: dict[str, object] = {
        "state": state,
        "questions": {name: _question(questions[name]) for name in given},
        "answers": {name: _label(answer, questions[name]) for name, answer in given.items()},
        "source": ESCALATION,
    }
    return row if family is None else {**row, "family": family}


def feedback_line(state: Text, questions: Mapping[str, Question], decision: Decision) -> str | None:
    """The same as one line of JSON, without its end."""
    row = feedback_row(state, questions, decision)
    return None if row is None else dumps(row)


def _question(question: Question) -> dict[str, object]:
    fields = {"instructions": question.instructions, "criteria": question.criteria}
    return {"type": question.type, **{k: v for k, v in fields.items() if v is not None}}


def _label(answer: Answer, question: Question) -> object:
    if isinstance(answer, NoulAnswer):
        p: dict[str, float] = {"true": answer.noul, "false": 1.0 - answer.noul}
    else:
        p = dict(answer.probabilities)
    return render_label(normalised(p, question), question)
