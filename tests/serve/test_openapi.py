"""The OpenAPI document describes what the server does, and its page loads nothing."""

from __future__ import annotations

import re
from typing import Any

import pytest

from readoff.serve.docs_page import docs_page
from readoff.serve.openapi import openapi
from readoff.serve.settings import Settings

from .rig import Held, client_of

DOCUMENT = openapi(["tiny", "jev-latest"], Settings(max_questions=7))


def references(value: Any) -> set[str]:
    if isinstance(value, dict):
        found = {v for k, v in value.items() if k == "$ref"}
        return found.union(*map(references, value.values())) if value else found
    if isinstance(value, list):
        return set().union(*map(references, value))
    return set()


def test_every_reference_leads_somewhere_and_nothing_is_left_over() -> None:
    named = {f"#/components/schemas/{name}" for name in DOCUMENT["components"]["schemas"]}
    assert references(DOCUMENT) == named


def test_it_knows_this_servers_models_and_limits() -> None:
    schemas = DOCUMENT["components"]["schemas"]
    assert schemas["Request"]["properties"]["model"]["enum"] == ["tiny", "jev-latest"]
    assert schemas["Request"]["properties"]["questions"]["maxProperties"] == 7
    assert schemas["DecisionRequest"]["properties"]["questions"]["maxItems"] == 7


def test_it_says_where_a_key_is_needed() -> None:
    assert "securitySchemes" not in DOCUMENT["components"]
    guarded = openapi(["tiny"], Settings(), keys=True)
    for path, operations in guarded["paths"].items():
        for operation in operations.values():
            assert ("security" in operation) == (path.startswith(("/v1/", "/metrics"))), path


def test_every_route_is_in_it() -> None:
    with client_of(Held()) as client:
        served = client.get("/openapi.json").json()
        for path, operations in served["paths"].items():
            for method in operations:
                response = client.get(path) if method == "get" else client.post(path, json={})
                assert response.status_code not in (404, 405), path


@pytest.mark.parametrize("path", ["/docs", "/openapi.json"])
def test_it_is_served(path: str) -> None:
    with client_of(Held()) as client:
        assert client.get(path).status_code == 200


def test_the_page_names_everything_and_loads_nothing() -> None:
    page = docs_page(DOCUMENT)
    for path in DOCUMENT["paths"]:
        assert f"<code>{path}</code>" in page
    ids = set(re.findall(r'id="(\w+)"', page))
    assert ids == set(DOCUMENT["components"]["schemas"])
    assert set(re.findall(r'href="#(\w+)"', page)) <= ids
    assert re.findall(r'(?:src|href)="(?!#|openapi\.json)', page) == []
    assert "<script" not in page
    assert "@import" not in page
    assert "url(" not in page
    assert '<html lang="en">' in page


def test_what_it_quotes_is_escaped() -> None:
    document = openapi(["<b>&"], Settings())
    page = docs_page(document)
    assert "<b>&" not in page
    assert "&lt;b&gt;&amp;" in page
