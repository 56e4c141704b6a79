"""`Endpoint`: one request from its bytes to the bytes of its answer."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import replace
from typing import Any, TypeVar

from readoff.engine import wire
from readoff.engine.answers import Decision
from readoff.engine.errors import RequestError
from readoff.engine.strict_json import loads
from readoff.serve.body import GoneError, Receive, header, read_body
from readoff.serve.dialects import Asked, Dialect
from readoff.serve.errors import HttpError
from readoff.serve.metrics import Metrics
from readoff.serve.record import Record, record_of
from readoff.serve.served import Models, Served
from readoff.serve.settings import Settings

R = TypeVar("R")
Scope = MutableMapping[str, Any]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

DEADLINE = b"x-readoff-deadline-ms"
_OFF_LOOP = 32 << 10
"""A body of more bytes is parsed by a thread, so that other requests don't wait for it."""
_MANY = 64
"""More answers than these are rendered by a thread."""
_MOST_MS = 1e9


class Endpoint:
    """Answers the requests of one dialect.

    Raises HttpError, GoneError, and what the engine raises.
    """

    def __init__(
        self, dialect: Dialect, models: Models, settings: Settings, metrics: Metrics
    ) -> None:
        self.dialect = dialect
        self._models, self._settings, self._metrics = models, settings, metrics

    async def answer(self, scope: Scope, receive: Receive) -> bytes:
        """The body of a 200."""
        record = record_of(scope)
        deadline = self._deadline(scope)
        spent = time.perf_counter() - record.started
        left = None if deadline is None else max(0.0, deadline / 1e3 - spent)
        body = await read_body(scope, receive, self._settings, left)
        since = record.lap("read", record.started)
        if len(body) > _OFF_LOOP:
            asked = await asyncio.to_thread(self._parse, body)
        else:
            asked = self._parse(body)
        record.questions = len(asked.questions)
        if self._settings.log_text:
            record.text = {"state": asked.state, "questions": asked.questions}
        served = self._models.find(asked.model)
        record.model = served.name
        since = record.lap("parse", since)
        if deadline is not None:  # counted from the request's first byte
            left = max(0.0, deadline - (since - record.started) * 1e3)
        decision = await self._ask(served, asked, left, receive)
        since = record.lap("engine", since)
        record.input_tokens = decision.usage.input_tokens
        record.cached_tokens = decision.usage.cached_tokens
        if len(decision) > _MANY:
            content = await asyncio.to_thread(self._render, asked, decision, served.name)
        else:
            content = self._render(asked, decision, served.name)
        self._count(served, decision, record, record.lap("render", since))
        return content

    async def _ask(
        self, served: Served, asked: Asked, deadline: float | None, receive: Receive
    ) -> Decision:
        engine = served.admit(self._settings.max_queue)
        start = time.perf_counter()

        def over(task: asyncio.Task[Decision]) -> None:
            """Not before the work is: a client that left early doesn't make room by that."""
            good = not task.cancelled() and task.exception() is None
            served.leave(time.perf_counter() - start if good else None)

        try:
            mass = self._measures(served, asked)
        except HttpError:
            served.leave(None)
            raise
        work = engine.adecide(asked.state, asked.questions, legal_mass=mass, deadline_ms=deadline)
        task = asyncio.create_task(work)
        task.add_done_callback(over)
        return await unless_gone(task, receive)

    def _measures(self, served: Served, asked: Asked) -> bool:
        if asked.legal_mass and not served.has_mass:
            raise HttpError(
                422,
                "value_error",
                f'The model "{served.name}" is a pack, which can\'t measure the legal mass.',
                ("body", "x_legal_mass"),
            )
        return asked.legal_mass or served.samples_mass(self._settings.legal_mass_every)

    def _parse(self, body: bytes) -> Asked:
        asked = self.dialect.parse(loads(body))
        most = self._settings.max_questions
        if len(asked.questions) > most:
            raise RequestError(
                f"The request has {len(asked.questions)} questions, and this server takes {most}. "
                "Send several requests: the state is cached.",
                ("body", "questions"),
            )
        return asked

    def _render(self, asked: Asked, decision: Decision, name: str) -> bytes:
        """A legal mass that only the metrics wanted isn't shown."""
        if not asked.legal_mass and any(a.legal_mass is not None for a in decision.values()):
            plain = {key: replace(a, legal_mass=None) for key, a in decision.items()}
            decision = replace(decision, answers=plain)
        return wire.dumps(asked.render(decision, name)).encode()

    def _count(self, served: Served, decision: Decision, record: Record, now: float) -> None:
        for stage, seconds in record.stages.items():
            self._metrics.stage(stage, seconds)
        self._metrics.answered(served.name, decision, now - record.started)

    def _deadline(self, scope: Scope) -> float | None:
        given = header(scope, DEADLINE)
        if given is None:
            return self._settings.deadline_ms
        try:
            value = float(given)
        except ValueError:
            value = math.nan
        if not 0 < value <= _MOST_MS or b"_" in given:
            raise HttpError(
                422,
                "value_error",
                f"{DEADLINE.decode()} must be a number of milliseconds above 0.",
                ("header", DEADLINE.decode()),
            )
        least = self._settings.deadline_ms
        return value if least is None else min(value, least)


async def unless_gone(work: Awaitable[R], receive: Receive) -> R:
    """What `work` gives. When the client goes away first, `work` is cancelled; raises GoneError."""
    task = asyncio.ensure_future(work)
    watch = asyncio.ensure_future(_disconnected(receive))
    try:
        await asyncio.wait((task, watch), return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        raise GoneError
    finally:
        watch.cancel()
        if not task.done():
            task.cancel()


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
