"""Errors of the server that aren't the library's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from readoff.engine.errors import (
    BudgetError,
    ClosedError,
    ContextError,
    DeadlineError,
    OverloadedError,
    QuestionError,
    ReadoffError,
    RequestError,
    TemplateError,
)

Loc = tuple[str | int, ...]

INTERNAL = "The server failed to answer; its log has the reason under this request's id."


class StartError(ReadoffError):
    """The server can't start: a bad option, a port in use, a key file that isn't there."""


@dataclass(eq=False)
class HttpError(Exception):
    """A request that gets an error for an answer, in whichever dialect it came.

    `kind` is the machine's word for it, `loc` the path to the offending field where the request's
    content is at fault (status 422), `headers` what the answer carries besides.
    """

    status: int
    kind: str
    message: str
    loc: Loc = ("body",)
    headers: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__init__(self.message)

    @property
    def closes(self) -> bool:
        """Whether the connection can't be used again: the body wasn't read to its end."""
        return "connection" in self.headers


def failure_of(error: BaseException) -> HttpError:
    """What a client is told about `error`.

    Whatever a client can be at fault for is a 4xx, so that no client repeats it in vain; what the
    server is at fault for is a 5xx that gives nothing away.
    """
    if isinstance(error, HttpError):
        return error
    if isinstance(error, RequestError):
        return HttpError(422, "value_error", str(error), error.loc)
    if isinstance(error, ContextError):
        return HttpError(422, "too_long", str(error), ("body", "state"))
    if isinstance(error, BudgetError):
        return HttpError(422, "too_long", str(error), ("body",))
    if isinstance(error, QuestionError | TemplateError):  # or too few labels for its options
        return HttpError(422, "value_error", str(error))
    if isinstance(error, DeadlineError):
        return HttpError(408, "deadline_exceeded", str(error))
    if isinstance(error, OverloadedError):
        return overloaded(error.depth, 1.0)
    if isinstance(error, ClosedError):
        return unavailable("The server is shutting down. Ask another one.")
    return HttpError(500, "internal_error", INTERNAL)


def overloaded(depth: int, seconds: float) -> HttpError:
    """Too many requests wait; in about `seconds` there should be room."""
    seconds = min(30.0, max(0.05, seconds))
    return HttpError(
        429,
        "overloaded",
        f"{depth} requests are waiting, and that is the limit. Try again in {seconds:.2g} s.",
        headers=_retry(seconds),
    )


def unavailable(message: str) -> HttpError:
    """Nothing is answered now; a little later it may be."""
    return HttpError(503, "unavailable", message, headers=_retry(1.0))


def _retry(seconds: float) -> dict[str, str]:
    """Both forms of it: whole seconds as in HTTP, and the milliseconds that clients prefer."""
    return {"retry-after": str(max(1, round(seconds))), "retry-after-ms": str(int(seconds * 1e3))}
