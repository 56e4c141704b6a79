"""From a request to a `Job`, and from what was read for it to its `Decision`."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from readoff.engine.answers import Answer, Decision, Usage, build_answer
from readoff.engine.card import Card
from readoff.engine.echo import echo
from readoff.engine.errors import ContextError, NumericsError, QuestionError, ReadoffError
from readoff.engine.escalation import gated
from readoff.engine.gate import Gate
from readoff.engine.job import Group, Job
from readoff.engine.line import Line
from readoff.engine.prompt import Prompt, Renderer
from readoff.engine.questions import Question
from readoff.engine.text import Text, check_text, least_tokens

Questions: TypeAlias = Mapping[str, Question]


class Asking:
    """Makes jobs of requests to one model, and decisions of what was read for them.

    `hint` is what else than damaged weights may make numbers that aren't finite, or nothing;
    `kernels` tells which implementations are asked for where a job is made.
    """

    def __init__(
        self,
        renderer: Renderer,
        card: Card,
        context_length: int,
        name: str,
        hint: str = "",
        kernels: Callable[[], tuple[tuple[str, str], ...]] = tuple,
    ) -> None:
        self.renderer, self.card, self.name = renderer, card, name
        self.context_length = context_length
        self._hint, self._kernels = hint, kernels

    def job(
        self,
        state: Text,
        questions: Questions,
        *,
        where: str = "",
        legal_mass: bool = False,
        priority: int = 0,
        deadline_ms: float | None = None,
        start: float | None = None,
        gate: Gate | None = None,
    ) -> Job:
        """The job of one request. `where` names it in errors; it began at `start`; its answers
        get the verdicts of `gate`.

        Raises QuestionError and ContextError, and ReadoffError for a bad priority or deadline.
        """
        start = time.perf_counter() if start is None else start
        _check_options(priority, deadline_ms)
        try:
            self._check_size(state, f"{where}: The state" if where else "The state")
            prompts = self.renderer.render(state, questions)
        except QuestionError as error:
            if not where:
                raise
            raise QuestionError(f"{where}: {error}") from error
        lines = []
        for (name, question), prompt in zip(questions.items(), prompts, strict=True):
            shown = echo(repr(name))
            self._check_length(prompt, f"{where}, question {shown}" if where else shown)
            *shared, leaf = (piece.ids for piece in prompt.pieces)
            options = len(question.options)
            lines.append(
                Line(
                    tuple(shared),
                    leaf,
                    tuple(prompt.labels.ids),
                    self.card.prior_for(question.type, name, options),
                    self.card.temperature_for(question.type, name, options),
                )
            )
        total = distinct_tokens(lines)
        asked = dict(questions)

        def finish(job: Job) -> Decision:
            computed = min(job.computed, total)
            usage = Usage(total, computed, total - computed)
            answers = self._answers(asked, job)
            latency = (time.perf_counter() - start) * 1e3
            decision = Decision(answers, usage, latency, self.name)
            return gated([(state, asked)], [decision], gate)[0]

        return Job(
            lines,
            Group(self._kernels(), legal_mass),
            finish,
            priority,
            None if deadline_ms is None else start + deadline_ms / 1e3,
        )

    def warming(self, state: Text) -> Job:
        """The job that computes a state and reads nothing. Raises QuestionError, ContextError."""
        self._check_size(state, "The state")
        prompt = self.renderer.prefix(state)
        self._check_length(prompt, "The state")
        line = Line(tuple(piece.ids for piece in prompt.pieces))

        def finish(job: Job) -> Usage:
            computed = min(job.computed, line.shared)
            return Usage(line.shared, computed, line.shared - computed)

        return Job([line], Group(self._kernels()), finish)

    def _check_size(self, state: Text, what: str) -> None:
        """Refuse what is too large beyond doubt before it is written out as text, which indented
        lines may make a hundred times larger."""
        if isinstance(state, str):
            return
        least = least_tokens(check_text(state, "The state"))
        if least > self.context_length:
            raise ContextError(
                f"{what} has {least} entries, each a token at least, and the model takes "
                f"{self.context_length} tokens. Shorten it; nothing is ever cut off.",
                limit=self.context_length,
                length=least,
            )

    def _check_length(self, prompt: Prompt, where: str) -> None:
        if len(prompt) > self.context_length:
            raise ContextError(
                f"{where}: the prompt has {len(prompt)} tokens and the model takes "
                f"{self.context_length}. Shorten the state; nothing is ever cut off.",
                limit=self.context_length,
                length=len(prompt),
            )

    def _answers(self, questions: Questions, job: Job) -> dict[str, Answer]:
        answers: dict[str, Answer] = {}
        for (name, question), reads in zip(questions.items(), job.reads, strict=True):
            try:
                answers[name] = build_answer(
                    question, reads.logits, reads.probabilities, reads.legal_mass
                )
            except NumericsError as error:
                raise NumericsError(
                    f"Question {echo(repr(name))}: {error} The weights may be damaged{self._hint}."
                ) from error
        return answers


def _check_options(priority: int, deadline_ms: float | None) -> None:
    if type(priority) is not int:
        raise ReadoffError(f"priority must be a whole number, not {priority!r}.")
    if deadline_ms is None:
        return
    number = isinstance(deadline_ms, int | float) and not isinstance(deadline_ms, bool)
    if not number or not 0 <= deadline_ms < 1e12:
        raise ReadoffError(f"deadline_ms must be None or a number from 0 on, not {deadline_ms!r}.")


def distinct_tokens(lines: Sequence[Line]) -> int:
    """Tokens of the lines, a beginning that they share counted once."""
    known: dict[tuple[int, tuple[int, ...]], int] = {}
    total = 0
    for line in lines:
        node = -1
        for ids in (*line.pieces, line.leaf):
            key = (node, ids)
            if key not in known:
                known[key] = len(known)
                total += len(ids)
            node = known[key]
    return total
