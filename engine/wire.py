"""The JSON of the wire contract: requests in, responses and errors out."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass

from readoff.engine.answers import Answer, ChoiceAnswer, Decision, ScoreAnswer, Verdict
from readoff.engine.echo import echo
from readoff.engine.errors import ContextError, NumericsError, QuestionError, RequestError
from readoff.engine.questions import Choice, Noul, Question, Score
from readoff.engine.text import Text, check_text, check_unicode

Loc = tuple[str | int, ...]
_CLASSES: Mapping[str, type[Choice | Score | Noul]] = {
    "noul": Noul,
    "choice": Choice,
    "score": Score,
}


@dataclass(frozen=True)
class Request:
    """A legal request. `model` is the name or alias that it asks for, if it names one."""

    state: Text
    questions: Mapping[str, Question]
    model: str | None = None


def dumps(content: object) -> str:
    """JSON text that any parser takes: no NaN, no Infinity; letters stay readable."""
    return json.dumps(content, ensure_ascii=False, allow_nan=False)


def parse_request(content: object) -> Request:
    """Check the parsed JSON of a request. Unknown fields are ignored.

    Raises RequestError whose `loc` leads to the offending field, for example
    ("body", "questions", "anger", "score", "criteria").
    """
    if not isinstance(content, Mapping):
        raise RequestError(f"A request must be a JSON object, not {_kind(content)}.", ("body",))
    for name in ("state", "questions"):
        if name not in content:
            raise RequestError(f'The field "{name}" is required.', ("body", name))
    model = content.get("model")
    if "model" in content and not isinstance(model, str):
        raise RequestError(f"The model must be a string, not {_kind(model)}.", ("body", "model"))
    try:
        state = check_text(content["state"], "The state")
    except QuestionError as error:
        raise RequestError(str(error), ("body", "state")) from error
    given = content["questions"]
    loc: Loc = ("body", "questions")
    if not isinstance(given, Mapping):
        raise RequestError(f"The questions must be an object, not {_kind(given)}.", loc)
    if not given:
        raise RequestError("There is no question; ask at least one.", loc)
    questions = {name: _question(name, value, (*loc, str(name))) for name, value in given.items()}
    return Request(state, questions, model if isinstance(model, str) else None)


def wants_legal_mass(content: object) -> bool:
    """Whether a request asks for the legal mass of its answers: `"x_legal_mass": true`.

    Raises RequestError for anything there but true, false and null.
    """
    wanted = content.get("x_legal_mass") if isinstance(content, Mapping) else None
    if wanted is not None and not isinstance(wanted, bool):
        raise RequestError(
            f"x_legal_mass must be true or false, not {_kind(wanted)}.", ("body", "x_legal_mass")
        )
    return bool(wanted)


def render_response(decision: Decision, model: str) -> dict[str, object]:
    """The response to a request, `model` being the name of the model that answered.

    Raises NumericsError if anything in it isn't a finite number; nothing is rounded.
    """
    usage = decision.usage
    response: dict[str, object] = {
        "model": model,
        "answers": {
            name: _answer(name, answer) | _verdict(decision.verdicts.get(name))
            for name, answer in decision.items()
        },
        "usage": {
            "input_tokens": usage.input_tokens,
            "output_tokens": len(decision),
            "x_cached_tokens": usage.cached_tokens,
        },
    }
    if math.isfinite(decision.latency_ms):
        response["x_latency_ms"] = decision.latency_ms
    return response


def render_error(error: RequestError | QuestionError | ContextError) -> dict[str, object]:
    """The body of the 422 answer to a request that isn't legal."""
    loc: Loc = ("body",)
    kind = "value_error"
    if isinstance(error, RequestError):
        loc = error.loc
    elif isinstance(error, ContextError):
        loc, kind = ("body", "state"), "too_long"
    return {"detail": [{"loc": list(loc), "msg": str(error), "type": kind}]}


def _question(name: object, value: object, loc: Loc) -> Question:
    if not isinstance(name, str) or not name:
        raise RequestError("A question id must be a non-empty string.", loc)
    try:
        check_unicode(name, "The question id")
    except QuestionError as error:
        raise RequestError(str(error), ("body", "questions")) from error
    if not isinstance(value, Mapping):
        raise RequestError(f"A question must be an object, not {_kind(value)}.", loc)
    kind = value.get("type")
    if not isinstance(kind, str) or kind not in _CLASSES:
        raise RequestError(
            f'A question\'s type is "noul", "choice" or "score", not {echo(repr(kind))}.',
            (*loc, "type"),
        )
    make = _CLASSES[kind]
    inner = (*loc, kind)
    if "criteria" not in value and make is not Noul:
        raise RequestError(f"A {kind} needs criteria.", (*inner, "criteria"))
    fields = {key: value[key] for key in ("instructions", "criteria") if key in value}
    try:
        return make(**fields)
    except QuestionError as error:
        raise RequestError(str(error), (*inner, *_blame(fields))) from error


def _blame(fields: Mapping[str, object]) -> Loc:
    """Which of a bad question's fields, or which description among its criteria, is at fault."""
    instructions, criteria = fields.get("instructions"), fields.get("criteria")
    if instructions is not None and not _is_text(instructions):
        return ("instructions",)
    if isinstance(criteria, Mapping):
        for name, text in criteria.items():
            if text is not None and not _is_text(text):
                return ("criteria", str(name))
    elif isinstance(criteria, list | tuple):
        for index, text in enumerate(criteria):
            if not _is_text(text):
                return ("criteria", index)
    return ("criteria",)


def _is_text(value: object) -> bool:
    try:
        check_text(value, "")
    except QuestionError:
        return False
    return True


def _answer(name: str, answer: Answer) -> dict[str, object]:
    found: dict[str, object] = {"type": answer.type}
    if isinstance(answer, ChoiceAnswer):
        found |= {
            "choice": answer.choice,
            "confidence": answer.confidence,
            "probabilities": dict(answer.probabilities),
        }
        numbers = [answer.confidence, *answer.probabilities.values()]
    elif isinstance(answer, ScoreAnswer):
        found |= {
            "score": answer.score,
            "confidence": answer.confidence,
            "legend": dict(answer.legend),
            "probabilities": dict(answer.probabilities),
        }
        numbers = [answer.score, answer.confidence, *answer.probabilities.values()]
    else:
        found["noul"] = answer.noul
        numbers = [answer.noul]
    if answer.legal_mass is not None:
        found["x_legal_mass"] = answer.legal_mass
        numbers.append(answer.legal_mass)
    if not all(map(math.isfinite, numbers)):
        raise NumericsError(f'The answer to "{name}" holds a number that is not finite.')
    return found


def _verdict(verdict: Verdict | None) -> dict[str, object]:
    """The gate's part of an answer: nothing without a gate."""
    if verdict is None:
        return {}
    found: dict[str, object] = {"x_accept": verdict.accept, "x_given_by": verdict.given_by}
    if verdict.failure is not None:
        found["x_escalation_failure"] = verdict.failure
    return found


def _kind(value: object) -> str:
    return "null" if value is None else type(value).__name__
