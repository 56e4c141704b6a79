"""JSON schemas of what the server reads and writes, as in `components.schemas` of OpenAPI 3.1."""

from __future__ import annotations

from readoff.engine.questions import MAX_LEVELS, MAX_OPTIONS
from readoff.serve.decision_schemas import decision_schemas
from readoff.serve.schema_parts import (
    COUNT,
    NOT_BLANK,
    PROBABILITY,
    Schema,
    constant,
    either,
    fields,
    nullable,
    one_of,
    ref,
)

_LEGAL_MASS = {
    "type": "number",
    "minimum": 0,
    "maximum": 1.001,
    "description": "What the whole vocabulary gives to the legal labels; where it was asked for.",
}


def schemas(models: list[str], most: int) -> dict[str, Schema]:
    """All of them; `models` are the names and aliases that requests may ask for, `most` the
    questions that one may have."""
    model: Schema = {"type": "string", "enum": models}
    return _shared() | _systemone(model, most) | decision_schemas(model, most) | _errors()


def _shared() -> dict[str, Schema]:
    return {
        "Text": either(
            {"type": "string"},
            {"type": "object", "additionalProperties": True},
            {"type": "array", "items": {}},
            description="Text, or a JSON object or array, which reads as indented lines.",
        ),
        "ModelList": fields(
            {
                "models": {
                    "type": "array",
                    "items": fields(
                        {
                            "name": {"type": "string"},
                            "description": {"type": "string"},
                            "release_date": {"type": "string", "pattern": r"^\d{4}-\d\d-\d\d$"},
                        },
                        "name description release_date",
                    ),
                }
            },
            "models",
        ),
        "Health": fields({"status": {"type": "string"}}, "status"),
    }


def _systemone(model: Schema, most: int) -> dict[str, Schema]:
    instructions = nullable(ref("Text"))
    distribution = {"type": "object", "additionalProperties": PROBABILITY}
    extra = {
        "x_legal_mass": _LEGAL_MASS,
        "x_accept": {"type": "boolean", "description": "Whether the model's gate accepts it."},
        "x_given_by": {"type": "string", "enum": ["model", "escalation"]},
        "x_escalation_failure": {"type": "string"},
    }
    return {
        "Request": fields(
            {
                "model": model,
                "state": ref("Text"),
                "questions": {
                    "type": "object",
                    "minProperties": 1,
                    "maxProperties": most,
                    "propertyNames": {"minLength": 1},
                    "additionalProperties": ref("Question"),
                },
                "x_legal_mass": {
                    "type": ["boolean", "null"],
                    "description": "Add x_legal_mass to every answer.",
                },
            },
            "state questions",
            additionalProperties=True,
        ),
        "Question": one_of({"noul": "Noul", "choice": "Choice", "score": "Score"}),
        "Noul": fields(
            {
                "type": constant("noul"),
                "instructions": instructions,
                "criteria": nullable(
                    fields(
                        {"true": nullable(ref("Text")), "false": nullable(ref("Text"))},
                        additionalProperties=False,
                    )
                ),
            },
            "type",
        ),
        "Choice": fields(
            {
                "type": constant("choice"),
                "instructions": instructions,
                "criteria": {
                    "type": "object",
                    "minProperties": 2,
                    "maxProperties": MAX_OPTIONS,
                    "propertyNames": {"pattern": NOT_BLANK},
                    "additionalProperties": nullable(ref("Text")),
                },
            },
            "type criteria",
        ),
        "Score": fields(
            {
                "type": constant("score"),
                "instructions": instructions,
                "criteria": {
                    "type": "array",
                    "minItems": 2,
                    "maxItems": MAX_LEVELS,
                    "uniqueItems": True,
                    "items": _level_text(),
                    "description": "Different texts, the lowest level first.",
                },
            },
            "type criteria",
        ),
        "Response": fields(
            {
                "model": {"type": "string"},
                "answers": {"type": "object", "additionalProperties": ref("Answer")},
                "usage": fields(
                    {"input_tokens": COUNT, "output_tokens": COUNT, "x_cached_tokens": COUNT},
                    "input_tokens output_tokens",
                ),
                "x_latency_ms": {"type": "number", "minimum": 0},
            },
            "model answers usage",
            additionalProperties=False,
        ),
        "Answer": one_of({"noul": "NoulAnswer", "choice": "ChoiceAnswer", "score": "ScoreAnswer"}),
        "NoulAnswer": fields(
            {"type": constant("noul"), "noul": PROBABILITY, **extra},
            "type noul",
            additionalProperties=False,
        ),
        "ChoiceAnswer": fields(
            {
                "type": constant("choice"),
                "choice": {"type": "string"},
                "confidence": PROBABILITY,
                "probabilities": distribution,
                **extra,
            },
            "type choice confidence probabilities",
            additionalProperties=False,
        ),
        "ScoreAnswer": fields(
            {
                "type": constant("score"),
                "score": {"type": "number", "minimum": 0, "maximum": MAX_LEVELS - 1},
                "confidence": PROBABILITY,
                "legend": {"type": "object", "additionalProperties": {"type": "string"}},
                "probabilities": distribution,
                **extra,
            },
            "type score confidence legend probabilities",
            additionalProperties=False,
        ),
    }


def _level_text() -> Schema:
    """A level's text must not be blank; what is empty in JSON reads as {} or []."""
    return either(
        {"type": "string", "pattern": NOT_BLANK},
        {"type": "object", "additionalProperties": True},
        {"type": "array", "items": {}},
    )


def _errors() -> dict[str, Schema]:
    text = {"type": "string"}
    return {
        "ValidationError": fields(
            {
                "detail": {
                    "type": "array",
                    "minItems": 1,
                    "items": fields(
                        {
                            "loc": {"type": "array", "items": {"type": ["string", "integer"]}},
                            "msg": text,
                            "type": text,
                        },
                        "loc msg type",
                    ),
                }
            },
            "detail",
        ),
        "Error": fields(
            {"detail": fields({"error_type": text, "message": text}, "error_type message")},
            "detail",
        ),
        "DecisionError": fields(
            {
                "error": fields(
                    {
                        "message": text,
                        "type": text,
                        "param": {"type": ["string", "null"]},
                        "code": {"type": ["string", "null"]},
                    },
                    "message type",
                )
            },
            "error",
        ),
    }
