"""`Calls`: the ways of asking an engine, one caller or many, blocking or not."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Sequence
from concurrent.futures import Future
from functools import cached_property, partial
from typing import Any, Protocol, TypedDict, Unpack

from readoff.engine.answers import Decision, Usage
from readoff.engine.aside import Aside, Leave
from readoff.engine.asking import Asking, Questions
from readoff.engine.card_fields import Debias
from readoff.engine.debias import Key
from readoff.engine.endings import late
from readoff.engine.errors import ReadoffError
from readoff.engine.escalation import LIMIT, TIMEOUT, Escalate
from readoff.engine.gate import Gate
from readoff.engine.job import Job
from readoff.engine.policy import Policy, Wishes
from readoff.engine.questions import Choice, Noul, Score
from readoff.engine.scheduler import Scheduler
from readoff.engine.text import Text

Request = tuple[Text, Questions]


class Queued(TypedDict, total=False):
    """How a request waits and what it reads: see `Calls.decide`."""

    legal_mass: bool
    priority: int
    deadline_ms: float | None


class How(Queued, total=False):
    """Every option of a call: see `Calls.decide`."""

    debias: Debias | None
    rotations: int | None
    gate: Gate | float | None
    escalate: Escalate | None
    escalate_limit: int
    escalate_timeout: float


class Runs(Protocol):
    """What runs the jobs of an engine: its scheduler, and its cache of prefixes, if it has one."""

    @property
    def scheduler(self) -> Scheduler:
        """Where jobs are queued."""

    @property
    def cache(self) -> object | None:
        """What keeps prefixes between passes."""


class Calls:
    """What `Engine` and `OnnxEngine` are asked with; they say what answers."""

    _asking: Asking
    _worker: Runs
    _policy: Policy

    def decide(
        self,
        state: Text,
        questions: Questions,
        *,
        legal_mass: bool = False,
        priority: int = 0,
        deadline_ms: float | None = None,
        debias: Debias | None = None,
        rotations: int | None = None,
        gate: Gate | float | None = None,
        escalate: Escalate | None = None,
        escalate_limit: int = LIMIT,
        escalate_timeout: float = TIMEOUT,
    ) -> Decision:
        """Answer `questions` about `state`, all in one forward pass.

        Args:
            state: text, or a JSON object or array.
            questions: `Choice`, `Score` or `Noul` by an id of your own; the model never sees ids.
            legal_mass: also measure how much probability the full vocabulary puts on the legal
                labels (reads the whole output matrix).
            priority: higher ones go first.
            deadline_ms: give up after so many milliseconds from now.
            debias: "prior" (what the model answers about nothing is subtracted), "rotate" (several
                orders of a Choice's options, averaged), "both" or "none"; by default what the card
                says. See `readoff.engine.debias`.
            rotations: how many orders, at most; by default what the card says.
            gate: a `Gate` or a threshold; by default the card's, which isn't applied where `debias`
                or `rotations` are others than the card's. `Decision.verdicts` says which answers it
                accepts.
            escalate: called with the state and a question where the gate doesn't accept; its answer
                takes the place of the model's. See `readoff.engine.escalation`, and
                `ChatEscalation` for chat endpoints.
            escalate_limit, escalate_timeout: questions asked at once, and seconds until one is
                given up; the model's answer is then returned, marked.

        Raises:
            QuestionError: the state or a question isn't legal.
            ContextError: a prompt is longer than the model's context.
            NumericsError: the model gave numbers that aren't finite.
            OverloadedError: too many requests are waiting.
            DeadlineError: the deadline passed.
            BudgetError: the prompt needs more memory than `cache_bytes` allows, or than there is.
            ClosedError: the engine was closed.
            StepError: the pass failed; its `__cause__` says why.
        """
        how = How(
            legal_mass=legal_mass,
            priority=priority,
            deadline_ms=deadline_ms,
            debias=debias,
            rotations=rotations,
            gate=gate,
            escalate=escalate,
            escalate_limit=escalate_limit,
            escalate_timeout=escalate_timeout,
        )
        return self._decide([(state, questions)], False, **how)[0]

    def decide_many(self, requests: Sequence[Request], **how: Unpack[How]) -> list[Decision]:
        """`decide` for many states, packed into few passes; beginnings they share run once.

        Takes the options of `decide`. Waits for room in the queue instead of raising
        OverloadedError. Nothing is computed unless every request is legal. Raises what `decide`
        does, of the first request that has an error.
        """
        return self._decide(requests, True, **how)

    def submit(
        self, state: Text, questions: Questions, **queued: Unpack[Queued]
    ) -> Future[Decision]:
        """`decide` without waiting. Cancelling the future takes the request out of the queue.

        Takes `legal_mass`, `priority` and `deadline_ms`; the card's gate is applied. Raises at once
        what is wrong with the request, and OverloadedError; the rest comes from the future. A card
        that debiases needs several requests for one, which this can't make.
        """
        if self._policy.card.debias != "none":
            raise ReadoffError(
                f'The card debiases ("{self._policy.card.debias}"), and submit can\'t. Use decide '
                "or adecide."
            )
        job = self._asking.job(state, questions, gate=self._policy.gate, **queued)
        job.owner = self  # an engine that nobody else holds lives until the answer is there
        self._worker.scheduler.submit(job)
        return job.ticket

    async def adecide(self, state: Text, questions: Questions, **how: Unpack[How]) -> Decision:
        """`decide` for asyncio, with the same options; cancelling the task takes the request out
        of the queue. One that is debiased has ended before the cancelled task has; one that is
        escalated goes on unheard, once it has begun."""
        start = time.perf_counter()
        plan = self._policy.plan(**_wishes(how))
        if not plan.plain:
            return await self._aside.run(
                partial(self._decide_one, state, questions, how),
                how.get("deadline_ms"),
                start,
                unheard=how.get("escalate") is not None,
            )
        # Text to tokens can take long: the event loop doesn't wait for it.
        make = partial(self._asking.job, gate=plan.gate, start=start)
        job = await asyncio.to_thread(make, state, questions, **_queued(how))
        self._worker.scheduler.submit(job)
        try:
            async with asyncio.timeout(job.left()):
                decision: Decision = await asyncio.wrap_future(job.ticket)
        except TimeoutError as error:
            job.ticket.cancel()
            raise late() from error
        return decision

    def prefill(self, state: Text) -> Usage:
        """Compute `state`, so that questions about it find it warm. Errors as for `decide`."""
        if self._worker.cache is None:
            raise ReadoffError("cache_bytes=0 keeps nothing: there is nothing to warm.")
        self._check_thread()
        job = self._asking.warming(state)
        self._worker.scheduler.submit(job)
        usage: Usage = _wait(job)
        return usage

    def _check_thread(self) -> None:
        """Before waiting for a job."""
        if self._worker.scheduler.is_current:
            raise ReadoffError(
                "A callback of a future can't wait for the engine: it runs on the engine's own "
                "thread. Use submit there, or hand the work to another thread."
            )

    def _rehearse(self) -> None:
        """Decide twice, cold and cached, and keep what is in memory by now out of Python's later
        garbage collections."""
        questions: Questions = {
            "choice": Choice(criteria={"yes": None, "no": None}),
            "score": Score(criteria=["low", "high"]),
            "noul": Noul(),
        }
        for _ in range(2):
            self.decide("Nothing has happened yet.", questions)
        gc.collect()
        gc.freeze()

    @cached_property
    def _aside(self) -> Aside:
        return Aside()

    def _decide_one(
        self, state: Text, questions: Questions, how: How, leave: Leave, deadline_ms: float | None
    ) -> Decision:
        options = how.copy()
        options["deadline_ms"] = deadline_ms
        return self._decide([(state, questions)], False, leave, **options)[0]

    def _decide(
        self,
        requests: Sequence[Request],
        patient: bool,
        leave: Leave | None = None,
        **how: Unpack[How],
    ) -> list[Decision]:
        ask = partial(self._ask, patient=patient, leave=leave or Leave(), **_queued(how))
        return self._policy.decide(ask, requests, **_wishes(how))

    def _ask(
        self,
        requests: Sequence[Request],
        *,
        patient: bool,
        leave: Leave,
        **queued: Unpack[Queued],
    ) -> list[Decision]:
        """All of `requests` at once; `patient`: wait for room in the queue."""
        start = time.perf_counter()
        self._check_thread()
        many = len(requests) > 1
        named = many and not any(isinstance(name, Key) for _, asked in requests for name in asked)
        jobs = [
            self._asking.job(
                *request, where=f"Request {number}" if named else "", start=start, **queued
            )
            for number, request in enumerate(requests)
        ]
        try:
            leave.takes(jobs)
            if patient:
                self._worker.scheduler.submit_many(jobs)
            else:
                self._worker.scheduler.submit(*jobs)
            return [_wait(job) for job in jobs]
        finally:
            for job in jobs:
                job.ticket.cancel()


def _queued(how: How) -> Queued:
    return Queued(
        legal_mass=how.get("legal_mass", False),
        priority=how.get("priority", 0),
        deadline_ms=how.get("deadline_ms"),
    )


def _wishes(how: How) -> Wishes:
    return Wishes(
        debias=how.get("debias"),
        rotations=how.get("rotations"),
        gate=how.get("gate"),
        escalate=how.get("escalate"),
        limit=how.get("escalate_limit", LIMIT),
        timeout=how.get("escalate_timeout", TIMEOUT),
    )


def _wait(job: Job) -> Any:
    """The job's result; an interrupted or late caller takes it out of the queue."""
    try:
        return job.ticket.result(job.left())
    except TimeoutError:
        if job.ticket.done():  # just now
            return job.ticket.result()
        raise late() from None
    finally:
        job.ticket.cancel()
