"""The building blocks of the JSON schemas."""

from __future__ import annotations

from typing import Any

Schema = dict[str, Any]

PROBABILITY: Schema = {"type": "number", "minimum": 0, "maximum": 1}
COUNT: Schema = {"type": "integer", "minimum": 0}
NOT_BLANK = r"[^\t-\r\x1c- \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]"
"""A pattern. What blank means is spelled out, for languages differ in what \\s is."""
NAME: Schema = {"type": "string", "pattern": NOT_BLANK}


def ref(name: str) -> Schema:
    """A reference to a schema of the document."""
    return {"$ref": f"#/components/schemas/{name}"}


def fields(properties: Schema, required: str = "", **more: Any) -> Schema:
    """An object; `required` names fields, between spaces."""
    made: Schema = {"type": "object", "properties": properties, **more}
    return made | ({"required": required.split()} if required else {})


def either(*options: Schema, **more: Any) -> Schema:
    """Any of several."""
    return {"anyOf": list(options), **more}


def nullable(schema: Schema) -> Schema:
    """That, or null."""
    return either(schema, {"type": "null"})


def constant(value: str) -> Schema:
    """That string and no other."""
    return {"type": "string", "enum": [value]}


def one_of(kinds: dict[str, str]) -> Schema:
    """The schema that the field "type" names; `kinds` maps its values to schemas."""
    return {
        "oneOf": [ref(name) for name in kinds.values()],
        "discriminator": {
            "propertyName": "type",
            "mapping": {kind: ref(name)["$ref"] for kind, name in kinds.items()},
        },
    }
