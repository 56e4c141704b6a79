"""Escalation: what the gate turns away is asked elsewhere, at once, and the answers merge.

`escalate` is any callable from a state and one question to an `Answer`. Its answers keep their
question's type and options, or they count as failures. Each call runs in a thread of its own that
nobody waits for beyond its time: an escalation can fail, it can't block.
"""

from __future__ import annotations

import math
import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias, cast, get_args

from readoff.engine.answers import (
    Answer,
    ChoiceAnswer,
    Decision,
    NoulAnswer,
    ScoreAnswer,
    Verdict,
)
from readoff.engine.errors import ReadoffError
from readoff.engine.gate import Gate
from readoff.engine.questions import Question
from readoff.engine.text import Text, check_unicode

Escalate: TypeAlias = Callable[[Text, Question], Answer]
"""Called from several threads at once. Whatever it raises is a failure of this one question."""

LIMIT = 8
"""Questions asked at once."""

TIMEOUT = 30.0
"""Seconds after which a question is given up."""

_LONGEST = 300  # characters of a failure
_ROUNDING = 1e-9  # what a sum of float64 may lose


@dataclass(frozen=True)
class _Task:
    request: int
    name: str
    state: Text
    question: Question


def gated(
    requests: Sequence[tuple[Text, Mapping[str, Question]]],
    decisions: Sequence[Decision],
    gate: Gate | None,
    escalate: Escalate | None = None,
    *,
    limit: int = LIMIT,
    timeout: float = TIMEOUT,
) -> list[Decision]:
    """`decisions` on `requests` with the gate's verdicts, and other answers where it turned away.

    Without a gate they come back as they are. Without `escalate`, or where it fails or isn't done
    in `timeout` seconds, the model's own answer is returned, marked as not accepted. At most
    `limit` questions are asked at once. The time that escalating takes is added to `latency_ms`.

    Raises ReadoffError for an escalation without a gate, and a limit or timeout that is none.
    """
    check_escalation(gate, escalate, limit, timeout)
    if gate is None:
        return list(decisions)
    verdicts = [
        {name: Verdict(accept) for name, accept in gate.judge(decision).items()}
        for decision in decisions
    ]
    if escalate is None:
        return [replace(d, verdicts=v) for d, v in zip(decisions, verdicts, strict=True)]
    tasks = [
        _Task(number, name, state, questions[name])
        for number, ((state, questions), found) in enumerate(zip(requests, verdicts, strict=True))
        for name, verdict in found.items()
        if not verdict.accept
    ]
    answers = [dict(decision) for decision in decisions]
    latest = [0.0] * len(decisions)
    for task, found, seconds in _asked(tasks, escalate, limit, timeout):
        latest[task.request] = max(latest[task.request], seconds)
        if isinstance(found, str):
            verdicts[task.request][task.name] = Verdict(False, failure=found)
        else:
            verdicts[task.request][task.name] = Verdict(False, "escalation")
            answers[task.request][task.name] = found
    return [
        replace(d, answers=a, verdicts=v, latency_ms=d.latency_ms + seconds * 1e3)
        for d, a, v, seconds in zip(decisions, answers, verdicts, latest, strict=True)
    ]


def _asked(
    tasks: Sequence[_Task], escalate: Escalate, limit: int, timeout: float
) -> list[tuple[_Task, Answer | str, float]]:
    """(task, its answer or what went wrong, seconds from the beginning until then)."""
    begun = time.monotonic()
    done: queue.SimpleQueue[tuple[int, Answer | str]] = queue.SimpleQueue()
    waiting = list(enumerate(tasks))[::-1]
    running: dict[int, float] = {}  # number of a task: when it is given up
    found: list[tuple[_Task, Answer | str, float]] = []

    def work(number: int) -> None:
        task = tasks[number]
        result: Answer | str
        try:
            result = _legal(escalate(task.state, task.question), task.question)
        except BaseException as error:  # a user's callable: whatever it raises is its failure,
            result = _told(error)  # SystemExit too, which ends no more than this thread
        done.put((number, result))

    def keep(number: int, result: Answer | str) -> None:
        if running.pop(number, None) is not None:  # else it was given up before
            found.append((tasks[number], result, time.monotonic() - begun))

    while waiting or running:
        while waiting and len(running) < limit:
            number, _ = waiting.pop()
            running[number] = time.monotonic() + timeout
            # A daemon: one that hangs keeps neither this call nor the process from ending.
            threading.Thread(target=work, args=(number,), daemon=True).start()
        try:
            keep(*done.get(timeout=max(0.0, min(running.values()) - time.monotonic())))
        except queue.Empty:
            now = time.monotonic()
            for number in [n for n, until in running.items() if until <= now]:
                keep(number, f"no answer within {timeout:g} s")
    return found


def check_escalation(
    gate: Gate | None, escalate: object, limit: int = LIMIT, timeout: float = TIMEOUT
) -> None:
    """Raise ReadoffError for what can't be escalated with; nothing is asked."""
    _check_bounds(limit, timeout)
    if escalate is None:
        return
    if not callable(escalate):
        raise ReadoffError(
            "An escalation must be callable with a state and a question, for example a "
            f"ChatEscalation, not {type(escalate).__name__}."
        )
    if gate is None:
        raise ReadoffError(
            "There is an escalation and no gate that would turn anything away. Give gate= too, "
            "or use a decision card that holds one."
        )


def _told(error: BaseException) -> str:
    """The failure in one short line that any JSON can hold."""
    try:
        said = " ".join(str(error).split())
    except Exception:  # its own text fails
        said = "(no text)"
    line = f"{type(error).__name__}: {said}"[:_LONGEST]
    return line.encode("utf-8", "replace").decode("utf-8")


def _legal(answer: object, question: Question) -> Answer:
    """`answer` if it can stand in for one to `question`. Raises ValueError."""
    if not isinstance(answer, get_args(Answer)):
        raise ValueError(f"an answer was expected, not {type(answer).__name__}")
    made = cast(Answer, answer)
    if made.type != question.type:
        raise ValueError(f"the question is a {question.type}, and the answer a {made.type}")
    if isinstance(made, NoulAnswer):
        p = [made.noul, 1.0 - made.noul]
    else:
        if tuple(made.probabilities) != question.options:
            raise ValueError("the answer has other options than the question")
        p = list(made.probabilities.values())
    if not all(_is_number(v) and 0.0 <= v <= 1.0 for v in p) or abs(math.fsum(p) - 1.0) > 1e-3:
        raise ValueError("the answer's probabilities are no distribution")
    if isinstance(made, ChoiceAnswer) and made.probabilities.get(made.choice) != max(p):
        raise ValueError("the answer's choice is not its most probable option")
    if not isinstance(made, NoulAnswer) and not _is_share(made.confidence):
        raise ValueError("the answer's confidence is no number from 0 to 1")
    if made.legal_mass is not None and not _is_share(made.legal_mass):
        raise ValueError("the answer's legal mass is no number from 0 to 1")
    if isinstance(made, ScoreAnswer):
        if set(made.legend) != set(question.options):
            raise ValueError("the answer's legend has other levels than the question")
        for text in made.legend.values():
            if not isinstance(text, str):
                raise ValueError("the answer's legend holds something else than text")
            check_unicode(text, "The answer's legend")
        mean = math.fsum(level * value for level, value in enumerate(p))
        if not _is_number(made.score) or not abs(made.score - mean) <= 1e-6:
            raise ValueError("the answer's score is not the mean level of its probabilities")
    return made


def _is_number(value: object) -> bool:
    """Whether JSON has a number for it."""
    real = isinstance(value, int | float) and not isinstance(value, bool)
    return real and math.isfinite(cast(float, value))


def _is_share(value: object) -> bool:
    """Whether it is a number from 0 to 1, or a rounding error beside it."""
    return _is_number(value) and -_ROUNDING <= cast(float, value) <= 1.0 + _ROUNDING


def _check_bounds(limit: int, timeout: float) -> None:
    if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
        raise ReadoffError(f"An escalation's limit must be 1 or more, not {limit!r}.")
    number = isinstance(timeout, int | float) and not isinstance(timeout, bool)
    if not number or not 0.0 < timeout < math.inf:
        raise ReadoffError(f"An escalation's timeout must be seconds above 0, not {timeout!r}.")
