"""The OpenAPI document of a server. Written by hand: requests aren't checked by pydantic models,
so none could describe them."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

from readoff.serve.schema_parts import ref
from readoff.serve.schemas import schemas
from readoff.serve.settings import Settings

_ERRORS = {
    400: "No such model, or compressed data that isn't.",
    401: "The API key isn't accepted.",
    403: "An API key is needed.",
    408: "Not answered before the deadline, or the body came too slowly.",
    413: "The body is too large.",
    415: "Not JSON, or compressed in a way that isn't understood.",
    422: "The request isn't legal, or too long for the model. Nothing is ever cut off.",
    429: "Too many requests are waiting; Retry-After says when to come back.",
    500: "The server is at fault.",
    503: "The model is still loading, or the server is about to stop.",
}
_ID = {
    "x-typesafe-request-id": {
        "description": "Names this request in the server's log.",
        "schema": {"type": "string"},
    }
}


def openapi(models: list[str], settings: Settings, *, keys: bool = False) -> dict[str, Any]:
    """The document, for a server of `models` (names and aliases) that asks for `keys` or not."""
    document: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {
            "title": "readoff",
            "version": version("readoff"),
            "description": "Typed decisions in one forward pass: state and questions in, "
            "probabilities out.",
        },
        "paths": {
            "/v1/systemone": {
                "post": _asking(
                    "systemone", "Answer typed questions about a state.", "Request", "Response"
                )
            },
            "/v1/decisions": {
                "post": _asking(
                    "decisions",
                    "The same in the dialect of OpenAI's Decisions API.",
                    "DecisionRequest",
                    "DecisionResponse",
                )
            },
            "/v1/models": {
                "get": _getting("models", "Names and aliases of models.", "ModelList", (401, 403))
            },
            "/health/live": {"get": _getting("live", "The process answers.", "Health")},
            "/health/ready": {
                "get": _getting("ready", "Every model is loaded and warm.", "Health", (503,))
            },
            "/metrics": {"get": _metrics()},
        },
        "components": {"schemas": schemas(models, settings.max_questions)},
    }
    if keys:
        document["components"]["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
        for path in ("/v1/systemone", "/v1/decisions", "/v1/models", "/metrics"):
            for operation in document["paths"][path].values():
                operation["security"] = [{"key": []}]
    return document


def _asking(name: str, summary: str, request: str, response: str) -> dict[str, Any]:
    errors = dict(_ERRORS)
    if name == "decisions":
        errors.pop(403)
        errors[400] = (
            "The request or a header isn't legal, the request is too long, or its model unknown."
        )
        errors.pop(422)
    return {
        "operationId": name,
        "summary": summary,
        "parameters": [
            {
                "name": "x-readoff-deadline-ms",
                "in": "header",
                "required": False,
                "description": "Milliseconds after which nobody waits for the answer.",
                "schema": {"type": "number", "exclusiveMinimum": 0, "maximum": 1e9},
            }
        ],
        "requestBody": {
            "required": True,
            "content": {"application/json": {"schema": ref(request)}},
        },
        "responses": {
            "200": _response("The answers.", response),
            **{
                str(status): _response(text, _error(name, status))
                for status, text in errors.items()
            },
        },
    }


def _error(name: str, status: int) -> str:
    if name == "decisions":
        return "DecisionError"
    return "ValidationError" if status == 422 else "Error"


def _getting(
    name: str, summary: str, response: str, errors: tuple[int, ...] = ()
) -> dict[str, Any]:
    return {
        "operationId": name,
        "summary": summary,
        "responses": {
            "200": _response(summary, response),
            **{str(status): _response(_ERRORS[status], "Error") for status in errors},
        },
    }


def _metrics() -> dict[str, Any]:
    found = _getting("metrics", "Counts and histograms, for Prometheus.", "Error", (401, 403))
    found["responses"]["200"]["content"] = {"text/plain": {"schema": {"type": "string"}}}
    return found


def _response(description: str, schema: str) -> dict[str, Any]:
    return {
        "description": description,
        "headers": _ID,
        "content": {"application/json": {"schema": ref(schema)}},
    }
