"""schemathesis against our own OpenAPI document: no 5xx, and nothing that it doesn't promise."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jsonschema_rs
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, assume, given, seed
from hypothesis import settings as hypothesis_settings
from schemathesis import Case, GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.config import SchemathesisConfig
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    positive_data_acceptance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
    unsupported_method,
)

from readoff.engine.engine import Engine
from readoff.serve.openapi import openapi
from readoff.serve.settings import Settings

from .rig import Borrowed, Running, running

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
OPERATIONS = [
    ("/v1/systemone", "POST"),
    ("/v1/decisions", "POST"),
    ("/v1/models", "GET"),
    ("/health/live", "GET"),
    ("/health/ready", "GET"),
    ("/metrics", "GET"),
]
CONFIG = {"checks": {"positive_data_acceptance": {"expected-statuses": ["200", "408"]}}}
"""A deadline that nobody could meet is a legal one."""

DOCUMENT = openapi(["tiny", "jev-latest"], Settings())


@pytest.fixture(scope="module")
def server(shared: Engine) -> Iterator[Running]:
    with running(Borrowed(shared)) as found:
        yield found


def check(url: str, path: str, method: str, mode: GenerationMode, examples: int) -> int:
    """Send `examples` requests of a mode to an operation; how many were sent."""
    schema = schemathesis.openapi.from_dict(DOCUMENT, config=SchemathesisConfig.from_dict(CONFIG))
    checks = list(CHECKS)
    if mode is GenerationMode.NEGATIVE:
        checks += [negative_data_rejection, unsupported_method]
    else:
        checks += [positive_data_acceptance]
    sent = 0

    @seed(9)
    @hypothesis_settings(
        max_examples=examples,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=schema[path][method].as_strategy(generation_mode=mode))
    def send(case: Case) -> None:
        nonlocal sent
        assume(mode is GenerationMode.NEGATIVE or not repeats(case.body))
        response = case.call(base_url=url)
        # A part that was spoilt for one branch of a schema may be legal by another.
        spoilt = mode is GenerationMode.NEGATIVE and response.status_code == 200
        fine = spoilt and is_legal(path, case)
        wanted = [one for one in checks if not (fine and one is negative_data_rejection)]
        if response.status_code == 422 and b'"too_long"' in response.content:
            wanted = [one for one in wanted if one is not positive_data_acceptance]
        case.validate_response(response, checks=wanted)
        sent += 1

    send()
    return sent


def is_legal(path: str, case: Case) -> bool:
    """Whether body and deadline are what the document allows."""
    content = DOCUMENT["paths"][path]["post"]["requestBody"]["content"]["application/json"]
    whole = {**content["schema"], "components": DOCUMENT["components"]}
    deadline = (case.headers or {}).get("x-readoff-deadline-ms", "1")
    try:
        timed = float(deadline) > 0
    except ValueError:
        timed = False
    return timed and jsonschema_rs.validator_for(whole).is_valid(case.body)


def repeats(body: Any) -> bool:
    """Whether a decision's names, values or labels are there twice, which no schema can forbid."""
    if not isinstance(body, dict) or not isinstance(body.get("questions"), list):
        return False
    lists = [[q.get("name") for q in body["questions"] if q.get("name") is not None]]
    for question in body["questions"]:
        lists.append([repr(choice["value"]) for choice in question.get("choices", ())])
        lists.append([level["label"] for level in question.get("levels", ())])
    return any(len(set(items)) < len(items) for items in lists)


@pytest.mark.parametrize(("path", "method"), OPERATIONS)
def test_what_is_legal_is_answered(server: Running, path: str, method: str) -> None:
    assert check(server.url, path, method, GenerationMode.POSITIVE, 15) > 0


@pytest.mark.parametrize(("path", "method"), OPERATIONS[:2])
def test_what_is_not_legal_is_refused(server: Running, path: str, method: str) -> None:
    assert check(server.url, path, method, GenerationMode.NEGATIVE, 15) > 0


@pytest.mark.slow
@pytest.mark.parametrize("mode", list(GenerationMode))
@pytest.mark.parametrize(("path", "method"), OPERATIONS[:2])
def test_many_more(server: Running, path: str, method: str, mode: GenerationMode) -> None:
    assert check(server.url, path, method, mode, 1000) > 500
