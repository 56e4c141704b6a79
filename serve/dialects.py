"""`Dialect`: what one route's requests, answers and errors look like."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from readoff.engine import wire, wire_openai
from readoff.engine.answers import Decision
from readoff.engine.questions import Question
from readoff.engine.text import Text
from readoff.serve.errors import HttpError


@dataclass(frozen=True)
class Asked:
    """A legal request: what the engine is asked, and `render`, from its decision and the model's
    name to the body of the answer. `legal_mass`: the request asks for it."""

    model: str | None
    state: Text
    questions: Mapping[str, Question]
    render: Callable[[Decision, str], dict[str, Any]]
    legal_mass: bool = False


class Dialect(Protocol):
    """One way of asking and answering."""

    name: str

    def parse(self, content: object) -> Asked:
        """From a request's JSON. Raises RequestError."""

    def failure(self, failure: HttpError) -> tuple[int, dict[str, Any]]:
        """The status and the body of an error."""


class SystemOne:
    """`POST /v1/systemone`."""

    name = "systemone"

    def parse(self, content: object) -> Asked:
        """See `Dialect`."""
        request = wire.parse_request(content)
        mass = wire.wants_legal_mass(content)
        return Asked(request.model, request.state, request.questions, wire.render_response, mass)

    def failure(self, failure: HttpError) -> tuple[int, dict[str, Any]]:
        """See `Dialect`."""
        if failure.status == 422:
            detail = {"loc": list(failure.loc), "msg": failure.message, "type": failure.kind}
            return 422, {"detail": [detail]}
        return failure.status, {"detail": {"error_type": failure.kind, "message": failure.message}}


class Decisions:
    """`POST /v1/decisions`."""

    name = "decisions"
    _CODES: Mapping[str, str] = {
        "too_long": "context_length_exceeded",
        "authentication_error": "invalid_api_key",
    }

    def parse(self, content: object) -> Asked:
        """See `Dialect`."""
        asked = wire_openai.parse_request(content)
        return Asked(asked.model, asked.state, asked.questions, asked.render)

    def failure(self, failure: HttpError) -> tuple[int, dict[str, Any]]:
        """See `Dialect`: what is wrong with the request is a 400, a key that is missing a 401."""
        status = {422: 400, 403: 401}.get(failure.status, failure.status)
        kind = "invalid_request_error"
        if status == 429:
            kind = "rate_limit_error"
        elif status >= 500:
            kind = "server_error"
        where = ".".join(str(part) for part in failure.loc[1:]) if failure.status == 422 else ""
        error = {
            "message": failure.message,
            "type": kind,
            "param": where or None,
            "code": self._CODES.get(failure.kind, failure.kind),
        }
        return status, {"error": error}


SYSTEMONE, DECISIONS = SystemOne(), Decisions()


def dialect_of(path: str) -> Dialect:
    """How errors of a path look."""
    return DECISIONS if path == "/v1/decisions" else SYSTEMONE
