"""The contract over HTTP: answers, and every row of its table of errors."""

from __future__ import annotations

import json
from typing import Any

import pytest

from readoff.engine import wire
from readoff.engine.engine import Engine
from readoff.engine.errors import (
    BudgetError,
    ClosedError,
    ContextError,
    DeadlineError,
    NumericsError,
    OverloadedError,
    StepError,
)
from readoff.serve.settings import Settings

from .rig import ASK, BODY, DECIDE, ONE, Borrowed, Held, client_of


def test_the_answer_is_the_engines(engine: Borrowed, shared: Engine) -> None:
    with client_of(engine) as client:
        response = client.post(ASK, json=BODY)
    request = wire.parse_request(BODY)
    decision = shared.decide(request.state, request.questions)
    expected = json.loads(wire.dumps(wire.render_response(decision, "tiny")))
    found = response.json()
    assert response.status_code == 200
    assert response.headers["content-type"] == "application/json"
    assert response.headers["x-typesafe-request-id"].startswith("req_")
    assert found["model"] == "tiny"
    assert list(found["answers"]) == ["urgent", "team", "anger"]
    assert found["answers"]["team"].keys() == expected["answers"]["team"].keys()
    for name, answer in expected["answers"].items():
        for key, p in answer.get("probabilities", {}).items():
            assert found["answers"][name]["probabilities"][key] == pytest.approx(p, abs=1e-5)
    assert found["usage"]["input_tokens"] == expected["usage"]["input_tokens"]
    assert found["usage"]["output_tokens"] == 3
    assert found["usage"]["x_cached_tokens"] <= found["usage"]["input_tokens"]
    assert found["x_latency_ms"] > 0


@pytest.mark.parametrize("model", ["tiny", "jev-latest", None])
def test_a_model_goes_by_its_name_and_aliases(engine: Borrowed, model: str | None) -> None:
    body = ONE | ({} if model is None else {"model": model})
    with client_of(engine) as client:
        response = client.post(ASK, json=body, headers={"authorization": "Bearer whoever"})
    assert response.status_code == 200
    assert response.json()["model"] == "tiny"


def test_legal_mass_is_shown_to_those_who_ask(engine: Borrowed) -> None:
    with client_of(engine, Settings(legal_mass_every=1)) as client:
        asked = client.post(ASK, json=ONE | {"x_legal_mass": True}).json()
        plain = client.post(ASK, json=ONE).json()
        wrong = client.post(ASK, json=ONE | {"x_legal_mass": "yes"})
        metrics = client.get("/metrics").text
    assert 0 < asked["answers"]["q"]["x_legal_mass"] <= 1
    assert "x_legal_mass" not in plain["answers"]["q"]
    assert wrong.status_code == 422
    assert wrong.json()["detail"][0]["loc"] == ["body", "x_legal_mass"]
    assert 'readoff_legal_mass_count{type="noul"} 2.0' in metrics


def test_models_are_listed(engine: Borrowed) -> None:
    with client_of(engine) as client:
        listed = client.get("/v1/models").json()["models"]
    assert [model["name"] for model in listed] == ["tiny", "jev-latest"]
    assert all(model.keys() == {"name", "description", "release_date"} for model in listed)


SCORE = {"type": "score", "criteria": {"0": "calm", "1": "cross"}}
WRONG: list[tuple[str, Any, list[Any]]] = [
    ("no state", {"questions": ONE["questions"]}, ["body", "state"]),
    ("null state", ONE | {"state": None}, ["body", "state"]),
    ("number state", ONE | {"state": 5}, ["body", "state"]),
    ("no questions", {"state": "x"}, ["body", "questions"]),
    ("empty questions", {"state": "x", "questions": {}}, ["body", "questions"]),
    ("listed questions", {"state": "x", "questions": []}, ["body", "questions"]),
    ("no type", {"state": "x", "questions": {"a": {}}}, ["body", "questions", "a", "type"]),
    (
        "map-form score",
        {"state": "x", "questions": {"anger": SCORE}},
        ["body", "questions", "anger", "score", "criteria"],
    ),
    (
        "empty criteria",
        {"state": "x", "questions": {"a": {"type": "choice", "criteria": {}}}},
        ["body", "questions", "a", "choice", "criteria"],
    ),
    (
        "256 options",
        {
            "state": "x",
            "questions": {"a": {"type": "choice", "criteria": {str(i): None for i in range(256)}}},
        },
        ["body", "questions", "a", "choice", "criteria"],
    ),
    (
        "a null level",
        {"state": "x", "questions": {"a": {"type": "score", "criteria": ["calm", None]}}},
        ["body", "questions", "a", "score", "criteria", 1],
    ),
    ("an array", [], ["body"]),
    ("number for a model", ONE | {"model": 3}, ["body", "model"]),
]


@pytest.mark.parametrize(("content", "loc"), [w[1:] for w in WRONG], ids=[w[0] for w in WRONG])
def test_what_is_not_legal_is_422_and_says_where(content: Any, loc: list[Any]) -> None:
    engine = Held()
    with client_of(engine) as client:
        response = client.post(ASK, json=content)
    assert response.status_code == 422
    (detail,) = response.json()["detail"]
    assert detail["loc"] == loc
    assert detail["msg"]
    assert isinstance(detail["type"], str)
    assert engine.asked == 0


RAW: list[tuple[str, bytes]] = [
    ("nothing", b""),
    ("half", b'{"state": "x", "questions": {'),
    ("twice", b'{"state": "x", "state": "y", "questions": {"a": {"type": "noul"}}}'),
    ("twice inside", b'{"state": {"k": 1, "k": 2}, "questions": {"a": {"type": "noul"}}}'),
    ("NaN", b'{"state": [NaN], "questions": {"a": {"type": "noul"}}}'),
    ("Infinity", b'{"state": {"a": -Infinity}, "questions": {"a": {"type": "noul"}}}'),
    ("1e999", b'{"state": [1e999], "questions": {"a": {"type": "noul"}}}'),
    ("bad UTF-8", b'{"state": "\xff\xfe", "questions": {"a": {"type": "noul"}}}'),
    ("half a pair", b'{"state": "\\ud800", "questions": {"a": {"type": "noul"}}}'),
    ("half a pair for an id", b'{"state": "x", "questions": {"\\ud800": {"type": "noul"}}}'),
    ("deep", b'{"state": ' + b"[" * 200 + b"]" * 200 + b', "questions": {"a": {"type": "noul"}}}'),
    ("a bomb", b"[" * 100_000),
    ("digits", b'{"state": [' + b"9" * 6000 + b'], "questions": {"a": {"type": "noul"}}}'),
    ("two documents", b"{} {}"),
]


@pytest.mark.parametrize("path", [ASK, DECIDE])
@pytest.mark.parametrize("body", [r[1] for r in RAW], ids=[r[0] for r in RAW])
def test_what_is_not_json_is_told_so(body: bytes, path: str) -> None:
    engine = Held()
    with client_of(engine) as client:
        response = client.post(path, content=body, headers={"content-type": "application/json"})
    assert response.status_code == (422 if path == ASK else 400)
    assert response.headers["x-typesafe-request-id"]
    if path == ASK:
        assert response.json()["detail"][0]["loc"][0] == "body"
    else:
        assert response.json()["error"]["type"] == "invalid_request_error"
    assert engine.asked == 0


def test_an_unknown_model_is_400() -> None:
    with client_of(Held()) as client:
        first = client.post(ASK, json=ONE | {"model": "other"})
        asked = {"model": "other", "input": "x", "questions": [PREDICATE]}
        second = client.post(DECIDE, json=asked)
    assert first.status_code == 400
    assert first.json()["detail"]["error_type"] == "api_usage_error"
    assert '"tiny"' in first.json()["detail"]["message"]
    assert second.status_code == 400
    assert second.json()["error"]["type"] == "invalid_request_error"


PREDICATE = {"type": "predicate", "instructions": "Is it urgent?"}


def test_what_is_too_long_is_422_and_names_the_limit(engine: Borrowed) -> None:
    with client_of(engine) as client:
        response = client.post(ASK, json=ONE | {"state": "a" * 5000})
        other = client.post(
            DECIDE, json={"model": "tiny", "input": "a" * 5000, "questions": [PREDICATE]}
        )
    assert response.status_code == 422
    (detail,) = response.json()["detail"]
    assert "4096" in detail["msg"]
    assert detail["loc"] == ["body", "state"]
    assert other.status_code == 400
    assert other.json()["error"]["code"] == "context_length_exceeded"


@pytest.mark.parametrize(
    ("error", "status", "kind"),
    [
        (OverloadedError("full", depth=9), 429, "overloaded"),
        (DeadlineError("late"), 408, "deadline_exceeded"),
        (ContextError("long", limit=1, length=2), 422, "too_long"),
        (BudgetError("big"), 422, "too_long"),
        (ClosedError("closed"), 503, "unavailable"),
        (NumericsError("secret state"), 500, "internal_error"),
        (StepError("secret state"), 500, "internal_error"),
        (RuntimeError("secret state"), 500, "internal_error"),
    ],
)
def test_what_the_engine_raises(error: Exception, status: int, kind: str) -> None:
    engine = Held(error=error)
    engine.open.set()
    with client_of(engine) as client:
        client.inner._transport.raise_app_exceptions = False  # type: ignore[attr-defined]
        response = client.post(ASK, json=ONE)
        after = client.get("/health/live")
    assert response.status_code == status
    detail = response.json()["detail"]
    assert (detail[0]["type"] if status == 422 else detail["error_type"]) == kind
    assert "secret" not in response.text
    assert ("retry-after" in response.headers) == (status in (429, 503))
    assert after.status_code == 200


def test_a_thousand_questions(engine: Borrowed) -> None:
    questions = {f"q{i}": {"type": "noul", "instructions": f"Is it {i}?"} for i in range(1000)}
    with client_of(engine) as client:
        response = client.post(ASK, json=ONE | {"questions": questions})
        more = questions | {f"r{i}": {"type": "noul"} for i in range(25)}
        refused = client.post(ASK, json=ONE | {"questions": more})
    assert response.status_code == 200
    assert list(response.json()["answers"]) == list(questions)
    assert refused.status_code == 422
    assert "1024" in refused.json()["detail"][0]["msg"]


def test_other_paths_and_methods() -> None:
    with client_of(Held()) as client:
        assert client.get("/nowhere").status_code == 404
        assert client.get("/nowhere").json()["detail"]["error_type"] == "api_usage_error"
        wrong = client.get(ASK)
    assert wrong.status_code == 405
    assert wrong.headers["allow"] == "POST"


@pytest.mark.parametrize("given", ["0", "-1", "soon", "nan", "inf", "1e12", "1_000", ""])
def test_a_deadline_must_be_a_number(given: str) -> None:
    with client_of(Held()) as client:
        response = client.post(ASK, json=ONE, headers={"x-readoff-deadline-ms": given})
    assert response.status_code == 422
    assert response.json()["detail"][0]["loc"] == ["header", "x-readoff-deadline-ms"]


def test_the_shorter_deadline_counts() -> None:
    engine = Held()
    engine.open.set()
    with client_of(engine, Settings(deadline_ms=1000)) as client:
        for given in (None, "500", "5000"):
            headers = {} if given is None else {"x-readoff-deadline-ms": given}
            assert client.post(ASK, json=ONE, headers=headers).status_code == 200
    with client_of(engine) as client:
        client.post(ASK, json=ONE)
    passed = [how["deadline_ms"] for how in engine.how]
    assert 900 < passed[0] < 1000
    assert 400 < passed[1] < 500
    assert 900 < passed[2] < 1000
    assert passed[3] is None


def test_a_missed_deadline_is_408(engine: Borrowed) -> None:
    with client_of(engine) as client:
        response = client.post(ASK, json=BODY, headers={"x-readoff-deadline-ms": "0.001"})
    assert response.status_code == 408
    assert response.json()["detail"]["error_type"] == "deadline_exceeded"


def test_more_options_than_the_tokenizer_has_labels_for_are_422(engine: Borrowed) -> None:
    options = {str(number): None for number in range(255)}
    asked = {"state": "x", "questions": {"q": {"type": "choice", "criteria": options}}}
    with client_of(engine) as client:
        response = client.post(ASK, json=asked)
    assert response.status_code == 422, response.text


def test_pages_answer_head_and_no_path_redirects() -> None:
    with client_of(Held()) as client:
        for path in ("/health/live", "/health/ready", "/docs", "/metrics", "/openapi.json"):
            assert client.runner.run(client.inner.head(path)).status_code == 200, path
        for path in (ASK + "/", "/health/live/"):
            response = client.post(path, json=ONE)
            assert response.status_code == 404
            assert response.json()["detail"]["error_type"] == "api_usage_error"
