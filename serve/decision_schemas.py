"""JSON schemas of the OpenAI dialect."""

from __future__ import annotations

from readoff.engine.questions import MAX_LEVELS, MAX_OPTIONS
from readoff.serve.schema_parts import (
    COUNT,
    NAME,
    NOT_BLANK,
    PROBABILITY,
    Schema,
    constant,
    either,
    fields,
    one_of,
    ref,
)


def decision_schemas(model: Schema, most: int) -> dict[str, Schema]:
    """Those of `/v1/decisions`; `model` is what a request's model may be, `most` the questions it
    may have."""
    name = {"type": ["string", "null"], "pattern": NOT_BLANK, "description": "Different names."}
    text = {"type": "string"}
    description = {"type": ["string", "null"]}
    value = {"type": ["string", "boolean"], "pattern": NOT_BLANK}
    any_value = {"type": ["string", "boolean"]}
    answer_name = {"type": ["string", "null"]}
    usage = {
        "input_tokens": COUNT,
        "input_tokens_details": fields({"cached_tokens": COUNT}, "cached_tokens"),
        "output_tokens": COUNT,
        "output_tokens_details": fields({"reasoning_tokens": COUNT}, "reasoning_tokens"),
        "total_tokens": COUNT,
    }
    asked = {"name": name, "instructions": text}
    return {
        "DecisionRequest": fields(
            {
                "model": model,
                "input": either(
                    text, {"type": "array", "minItems": 1, "items": ref("DecisionMessage")}
                ),
                "questions": {
                    "type": "array",
                    "minItems": 1,
                    "maxItems": most,
                    "items": ref("DecisionQuestion"),
                },
            },
            "model input questions",
        ),
        "DecisionMessage": fields(
            {
                "type": constant("message"),
                "role": NAME,
                "content": either(
                    text,
                    {
                        "type": "array",
                        "minItems": 1,
                        "items": fields(
                            {"type": constant("input_text"), "text": text}, "type text"
                        ),
                    },
                ),
            },
            "content",
        ),
        "DecisionQuestion": one_of(
            {
                "predicate": "PredicateQuestion",
                "choice": "ChoiceQuestion",
                "score": "ScoreQuestion",
            }
        ),
        "PredicateQuestion": fields({"type": constant("predicate"), **asked}, "type instructions"),
        "ChoiceQuestion": fields(
            {
                "type": constant("choice"),
                **asked,
                "choices": {
                    "type": "array",
                    "minItems": 2,
                    "maxItems": MAX_OPTIONS,
                    "items": fields({"value": value, "description": description}, "value"),
                    "description": 'Different values; true and "true" are different.',
                },
            },
            "type instructions choices",
        ),
        "ScoreQuestion": fields(
            {
                "type": constant("score"),
                **asked,
                "levels": {
                    "type": "array",
                    "minItems": 2,
                    "maxItems": MAX_LEVELS,
                    "items": fields({"label": NAME, "description": description}, "label"),
                    "description": "Different labels, the lowest level first.",
                },
            },
            "type instructions levels",
        ),
        "DecisionResponse": fields(
            {
                "model": {"type": "string"},
                "answers": {"type": "array", "items": ref("DecisionAnswer")},
                "usage": fields(usage, " ".join(usage), additionalProperties=False),
            },
            "model answers usage",
            additionalProperties=False,
        ),
        "DecisionAnswer": one_of(
            {"predicate": "PredicateAnswer", "choice": "ChosenAnswer", "score": "ScoredAnswer"}
        ),
        "PredicateAnswer": fields(
            {
                "type": constant("predicate"),
                "name": answer_name,
                "probability": PROBABILITY,
            },
            "type name probability",
            additionalProperties=False,
        ),
        "ChosenAnswer": fields(
            {
                "type": constant("choice"),
                "name": answer_name,
                "choice": any_value,
                "probabilities": {
                    "type": "array",
                    "items": fields(
                        {"value": any_value, "probability": PROBABILITY}, "value probability"
                    ),
                },
                "confidence": PROBABILITY,
            },
            "type name choice probabilities confidence",
            additionalProperties=False,
        ),
        "ScoredAnswer": fields(
            {
                "type": constant("score"),
                "name": answer_name,
                "score": {"type": "number", "minimum": 0, "maximum": MAX_LEVELS - 1},
                "probabilities": {
                    "type": "array",
                    "items": fields(
                        {"value": COUNT, "label": {"type": "string"}, "probability": PROBABILITY},
                        "value label probability",
                    ),
                },
                "confidence": PROBABILITY,
            },
            "type name score probabilities confidence",
            additionalProperties=False,
        ),
    }
