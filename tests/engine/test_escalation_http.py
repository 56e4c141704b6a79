"""`ChatEscalation` against a loopback endpoint: what is sent, what is read, how it fails."""

from __future__ import annotations

import json
import socket
from functools import partial
from typing import Any

import pytest

from readoff.engine.answers import ChoiceAnswer, NoulAnswer, ScoreAnswer
from readoff.engine.errors import EscalationError
from readoff.engine.escalation import gated
from readoff.engine.escalation_http import ChatEscalation, read, schema
from readoff.engine.gate import Gate
from readoff.engine.questions import Choice, Noul, Question, Score
from tests.bench.http import servers
from tests.engine.test_escalation import decide

TEAM = Choice(instructions="Which team?", criteria={"billing": "Money", "sales": None, "tech": {}})
ANGER = Score(criteria=["Calm", "Cross", "Furious"])
DUE = Noul(instructions="A refund is due.", criteria={"true": "Paid twice"})


def said(content: Any) -> dict[str, Any]:
    return servers.said(content if isinstance(content, str) else json.dumps(content))


def obliging(body: dict[str, Any]) -> Any:
    """Fills the schema in with its first legal value."""
    properties = body["response_format"]["json_schema"]["schema"]["properties"]
    return said({name: kind.get("enum", [True])[0] for name, kind in properties.items()})


def test_the_request_leaves_thinking_out_and_constrains_the_answer() -> None:
    with (
        servers.serving(servers.chat(obliging)) as server,
        ChatEscalation(server.url + "/v1", "big", key="k1") as escalate,
    ):
        answer = escalate({"mail": "Paid twice"}, TEAM)
    (body,) = server.asked
    assert server.keys == ["Bearer k1"]
    assert body["model"] == "big"
    assert body["temperature"] == 0
    assert body["stream"] is False
    assert body["chat_template_kwargs"] == {"enable_thinking": False}
    assert body["response_format"]["type"] == "json_schema"
    asked = body["messages"][1]["content"]
    assert asked.splitlines() == [
        "mail: Paid twice",
        "",
        "Which team?",
        "- billing: Money",
        "- sales",
        "- tech: {}",
        "",
        'Answer with JSON only: {"choice": "<one option>"}',
    ]
    assert isinstance(answer, ChoiceAnswer)
    assert (answer.choice, dict(answer.logits)) == ("billing", {})
    assert answer.probabilities == {"billing": 1.0, "sales": 0.0, "tech": 0.0}


def test_every_type_has_its_schema_and_its_answer() -> None:
    assert schema(TEAM)["properties"]["choice"]["enum"] == ["billing", "sales", "tech"]
    assert schema(ANGER)["properties"]["score"] == {"type": "integer", "enum": [0, 1, 2]}
    assert schema(DUE)["properties"]["noul"] == {"type": "boolean"}
    score = read(said({"score": 2}), ANGER)
    assert isinstance(score, ScoreAnswer)
    assert score.score == 2.0
    assert read(said({"noul": False}), DUE) == NoulAnswer(0.0, {})


@pytest.mark.parametrize(
    ("question", "content", "message"),
    [
        (TEAM, {"choice": "other"}, "chose 'other', which is no option"),
        (TEAM, {"team": "billing"}, "named no choice"),
        (TEAM, {"choice": True}, "named no choice"),
        (ANGER, {"score": 3}, "no option"),
        (ANGER, {"score": "1"}, "named no score"),
        (ANGER, {"score": True}, "named no score"),
        (ANGER, {"score": 1.0}, "named no score"),
        (DUE, {"noul": "true"}, "named no noul"),
        (DUE, {"noul": 1}, "named no noul"),
        (DUE, "<think>", "answered no JSON"),
        (DUE, [True], "named no noul"),
    ],
)
def test_an_answer_that_is_not_legal_is_an_error(
    question: Question, content: Any, message: str
) -> None:
    with pytest.raises(EscalationError, match=message):
        read(said(content), question)


@pytest.mark.parametrize("body", [{}, {"choices": []}, [], None])
def test_what_is_no_completion_is_an_error(body: Any) -> None:
    with pytest.raises(EscalationError, match="no chat completion"):
        read(body, DUE)
    with pytest.raises(EscalationError, match="no JSON"):
        read({"choices": [{"message": {"content": None}}]}, DUE)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ((400, {"error": "unknown chat_template_kwargs"}), "HTTP 400: .*chat_template_kwargs"),
        ((500, {}), "HTTP 500"),
        (b"not json", "gave no JSON"),
        (b"x" * (2**20 + 1), "longer than 1 MB"),
        (None, "can't be reached"),
    ],
)
def test_a_server_that_fails_is_an_error(answer: Any, message: str) -> None:
    with (
        servers.serving(servers.chat(lambda body: answer)) as server,
        ChatEscalation(server.url, "big") as escalate,
        pytest.raises(EscalationError, match=message),
    ):
        escalate("s", DUE)


def test_nobody_there_and_a_slow_server_are_errors() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with (
        ChatEscalation(f"http://127.0.0.1:{port}", "big") as escalate,
        pytest.raises(EscalationError, match="can't be reached"),
    ):
        escalate("s", DUE)
    slow = servers.chat(servers.slow(obliging, 0.5))
    with (
        servers.serving(slow) as server,
        ChatEscalation(server.url, "big", timeout=0.05) as escalate,
        pytest.raises(EscalationError, match="in time"),
    ):
        escalate("s", DUE)


@pytest.mark.parametrize(
    "url",
    ["big.example", "ftp://u:secret@host", "http://", "http://[::1", "http://u:secret:x@h:p", None],
)
def test_what_is_no_url_is_refused(url: Any) -> None:
    with pytest.raises(EscalationError, match="no URL") as caught:
        ChatEscalation(url, "big")
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("key", ["sécret", "sec\nret", "sec ret", "sec\x00ret", "sec\x7fret"])
def test_a_key_that_no_header_can_carry_is_refused_and_not_shown(key: str) -> None:
    with pytest.raises(EscalationError, match="key holds a character") as caught:
        ChatEscalation("http://h", "big", key=key)
    assert key not in str(caught.value)
    assert "ret" not in str(caught.value)


def test_blanks_around_a_key_are_dropped() -> None:
    with servers.serving(servers.chat(obliging)) as server:
        for key in (" k1\n", " \n", None):
            with ChatEscalation(server.url, "big", key=key) as escalate:
                escalate("s", DUE)
    assert server.keys == ["Bearer k1", None, None]


def echo(answer: Any, body: dict[str, Any]) -> Any:
    return answer


def test_failures_tell_the_address_without_what_is_secret_in_it() -> None:
    key = "sk-0123456789"
    for answer in ((401, {"error": "x" * 180 + key}), said(key), None):
        with servers.serving(servers.chat(partial(echo, answer))) as server:
            address = server.url.replace("//", "//user:secret@") + "/v1/?token=secret"
            with ChatEscalation(address, "big", key=key) as escalate:
                assert escalate.url == f"{server.url}/v1/chat/completions"
                with pytest.raises(EscalationError) as caught:
                    escalate("s", DUE)
        told = str(caught.value)
        assert "secret" not in told
        assert "sk-0" not in told


def test_the_query_of_an_address_is_sent() -> None:
    with ChatEscalation("http://u:p@h:1/v1?a=b#c", "big") as escalate:
        assert str(escalate._address) == "http://u:p@h:1/v1/chat/completions?a=b"
        assert escalate.url == "http://h:1/v1/chat/completions"


def test_extra_replaces_what_a_server_does_not_know() -> None:
    with ChatEscalation("http://h/v1/chat/completions", "b", extra={"temperature": 1}) as escalate:
        body = escalate.request("s", DUE)
        assert escalate.url == "http://h/v1/chat/completions"
    assert body["temperature"] == 1
    assert "chat_template_kwargs" not in body


def test_through_the_gate_questions_go_out_together_and_failures_are_marked() -> None:
    def answer(body: dict[str, Any]) -> Any:
        kinds = body["response_format"]["json_schema"]["schema"]["properties"]
        return (503, {}) if "noul" in kinds else servers.slow(obliging, 0.1)(body)

    with (
        servers.serving(servers.chat(answer)) as server,
        ChatEscalation(server.url, "big") as escalate,
    ):
        found = gated(*decide(states=["a", "b"]), Gate(0.9), escalate)
    assert len(server.asked) == 6
    assert server.busiest > 1
    for decision in found:
        by = {name: verdict.given_by for name, verdict in decision.verdicts.items()}
        assert by == {"team": "escalation", "anger": "escalation", "due": "model"}
        assert "HTTP 503" in (decision.verdicts["due"].failure or "")
