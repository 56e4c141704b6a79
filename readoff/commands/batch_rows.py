"""`Rows`: from requests, a line of JSON each, to lines of answers, whatever is wrong with some."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from readoff.engine import wire
from readoff.engine.answers import Decision
from readoff.engine.asking import Questions
from readoff.engine.errors import (
    BudgetError,
    ContextError,
    NumericsError,
    QuestionError,
    ReadoffError,
    RequestError,
    TemplateError,
)
from readoff.engine.strict_json import loads
from readoff.engine.text import Text

RowError = RequestError | QuestionError | ContextError | NumericsError | BudgetError | TemplateError
"""What can be wrong with one request. Anything else ends the batch. A template that fits no
question at all is refused when the model is loaded; later it lacks labels for one question."""

_ROW_ERRORS = (
    RequestError,
    QuestionError,
    ContextError,
    NumericsError,
    BudgetError,
    TemplateError,
)
_PLACES: Mapping[type[Exception], tuple[str, tuple[str, ...]]] = {
    ContextError: ("too_long", ("body", "state")),
    BudgetError: ("too_long", ("body",)),
    NumericsError: ("not_finite", ("body",)),
}
_NO_ID = object()


class Deciding(Protocol):
    """What a batch needs of an engine."""

    def decide_many(
        self, requests: Sequence[tuple[Text, Questions]], *, legal_mass: bool = False
    ) -> list[Decision]:
        """See `readoff.Engine.decide_many`."""


@dataclass
class Row:
    """A line of the input. `request` or `error` is filled when it is parsed, `decision` or
    `error` when it is answered. `id` is the request's own, of any JSON type."""

    number: int
    digest: str
    request: wire.Request | None = None
    legal_mass: bool = False
    id: object = _NO_ID
    decision: Decision | None = None
    error: RowError | None = None


def parse(line: bytes, number: int, digest: str, *, legal_mass: bool = False) -> Row:
    """The row of a line; nothing is raised. `legal_mass`: measure it in any case."""
    row = Row(number, digest)
    try:
        if not line.strip():
            raise RequestError("The line is empty; write a request.")
        content = loads(line)
        if isinstance(content, Mapping):
            row.id = content.get("id", _NO_ID)
        row.request = wire.parse_request(content)
        row.legal_mass = wire.wants_legal_mass(content) or legal_mass
    except RequestError as error:
        row.request, row.error = None, error
    return row


def decide(engine: Deciding, rows: Sequence[Row]) -> None:
    """Answer the rows that have a request, in as few calls as possible.

    Raises what the engine does if it isn't a row's fault.
    """
    for mass in (False, True):
        _decide(engine, [r for r in rows if r.request is not None and r.legal_mass is mass], mass)


def _decide(engine: Deciding, rows: Sequence[Row], mass: bool) -> None:
    """A call that fails for one row says nothing about the others: they are asked again, in
    halves, until the row at fault is alone."""
    if not rows:
        return
    requests = [(r.request.state, r.request.questions) for r in rows if r.request is not None]
    try:
        decisions = engine.decide_many(requests, legal_mass=mass)
    except ReadoffError as error:
        if mass and type(error) is ReadoffError:  # a pack, which can't measure it
            for row in rows:
                row.error = RequestError(str(error), ("body", "x_legal_mass"))
            return
        if not isinstance(error, _ROW_ERRORS):
            raise
        if len(rows) == 1:
            rows[0].error = error
            return
        middle = len(rows) // 2
        _decide(engine, rows[:middle], mass)
        _decide(engine, rows[middle:], mass)
        return
    for row, decision in zip(rows, decisions, strict=True):
        row.decision = decision


def render(row: Row) -> bytes:
    """The row's line of the output, its newline included. A row whose id can't be written as JSON
    becomes an error without an id."""
    content: dict[str, Any] = {}
    if not _is_json(row.id):
        row.id, row.decision = _NO_ID, None
        row.error = RequestError("The id can't be written as JSON.", ("body", "id"))
    if row.decision is not None:
        try:
            content = wire.render_response(row.decision, row.decision.model)
        except NumericsError as error:
            row.decision, row.error = None, error
    if row.error is not None:
        content = {"error": _render_error(row.error, row.number)}
    if row.id is not _NO_ID:
        content["x_id"] = row.id
    content["x_request"] = row.digest
    return wire.dumps(content).encode() + b"\n"


def _is_json(id_: object) -> bool:
    if id_ is _NO_ID:
        return True
    try:
        wire.dumps(id_).encode()
    except (ValueError, TypeError, RecursionError):
        return False
    return True


def _render_error(error: RowError, line: int) -> dict[str, object]:
    """As in the contract's 422, with the line's number."""
    kind, loc = _PLACES.get(type(error), ("value_error", ("body",)))
    found = error.loc if isinstance(error, RequestError) else loc
    # A key of the request may hold anything; the output is UTF-8 in any case.
    message = str(error).encode("utf-8", "backslashreplace").decode()
    return {"type": kind, "loc": list(found), "msg": message, "line": line}
