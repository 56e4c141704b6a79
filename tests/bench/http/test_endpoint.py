"""Asking servers on loopback: both dialects, and everything an endpoint can do wrong."""

from __future__ import annotations

import json
import socket
from typing import Any

import pytest

from readoff.bench.http.endpoint import DownError, Endpoint
from readoff.bench.records import Ask
from readoff.engine.errors import ReadoffError
from readoff.engine.questions import Choice, Noul, Score
from readoff.engine.wire import parse_request

from . import servers

ASK = Ask(
    state={"mail": "Two charges for one invoice."},
    questions={
        "team": Choice(instructions="Which team?", criteria={"billing": "Invoices", "sales": None}),
        "anger": Score(criteria=["calm", "angry"]),
        "refund": Noul(criteria={"true": "A refund is asked for"}),
    },
)
TEAM = Ask(state="Two charges.", questions={"team": ASK.questions["team"]})


def test_systemone_is_found_out_and_asked_once() -> None:
    with servers.serving(servers.systemone()) as server, Endpoint(server.url) as endpoint:
        assert (endpoint.kind, endpoint.model) == ("systemone", "tiny-one")
        run = endpoint.ask(ASK)
    (asked,) = server.asked
    request = parse_request(asked)
    assert (request.state, dict(request.questions)) == (ASK.state, dict(ASK.questions))
    assert request.model == "tiny-one"
    assert {name: given.value for name, given in run.given.items()} == {
        "team": "billing",
        "anger": "0",
        "refund": "true",
    }
    assert run.given["team"].probabilities == pytest.approx((0.8, 0.2))
    assert run.given["refund"].probabilities == pytest.approx((0.8, 0.2))
    assert (run.tokens_computed, run.tokens_generated) == (40, 0)
    assert run.seconds > 0


def test_chat_is_found_out_and_asked_question_by_question() -> None:
    def answer(body: dict[str, Any]) -> Any:
        shape = body["messages"][-1]["content"]
        for key, value in (("choice", "billing"), ("score", 1), ("answer", False)):
            if f'"{key}"' in shape:
                return servers.said(json.dumps({key: value, "confidence": 0.6}))
        raise AssertionError(shape)

    with servers.serving(servers.chat(answer)) as server:
        with Endpoint(server.url + "/v1/", key="secret") as endpoint:
            assert (endpoint.kind, endpoint.model) == ("openai", "tiny-chat")
            run = endpoint.ask(ASK)
        assert server.keys == ["Bearer secret"] * 3
        for body in server.asked:
            assert body["response_format"] == {"type": "json_object"}
            assert body["temperature"] == 0
            assert 0 < body["max_tokens"] <= 256
    assert [given.value for given in run.given.values()] == ["billing", "1", "false"]
    assert [given.stated for given in run.given.values()] == [0.6, 0.6, 0.6]
    assert (run.tokens_computed, run.tokens_generated) == (3 * 62, 36)


def test_a_url_that_names_the_resource_says_the_dialect() -> None:
    with servers.serving(servers.chat()) as server:
        server.models = None
        url = server.url + "/v1/chat/completions"
        with Endpoint(url, model="mine") as endpoint:
            assert endpoint.ask(TEAM).given["team"].value == "billing"
        assert server.asked[0]["model"] == "mine"


def test_a_server_that_is_neither_is_told_so() -> None:
    with servers.serving(servers.chat()) as server:
        server.models = {"hello": "world"}
        with pytest.raises(ReadoffError, match="--opponent-kind openai or systemone"):
            Endpoint(server.url)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("I think it is billing.", "no JSON object"),
        ('{"choice": "legal", "confidence": 1}', "'legal' is no legal choice"),
        (None, "no text in the completion"),
    ],
)
def test_nonsense_from_a_chat_is_a_counted_failure(text: Any, reason: str) -> None:
    with (
        servers.serving(servers.chat(lambda body: servers.said(text))) as server,
        Endpoint(server.url) as endpoint,
    ):
        given = endpoint.ask(TEAM).given["team"]
    assert (given.value, given.failure) == (None, reason)


def test_an_answer_that_was_cut_off_is_called_so() -> None:
    def cut(body: dict[str, Any]) -> Any:
        said = servers.said("Let me think about")
        said["choices"][0]["finish_reason"] = "length"
        return said

    with servers.serving(servers.chat(cut)) as server, Endpoint(server.url) as endpoint:
        given = endpoint.ask(TEAM).given["team"]
    assert (given.value, given.failure) == (None, "cut off at the token limit")


@pytest.mark.parametrize(
    ("made", "reason"),
    [
        ({}, "no answer to the question"),
        ([1, 2], "no answer to the question"),
        ({"answers": {"team": {"type": "noul", "noul": 1}}}, "of type 'noul' to a choice"),
        ({"answers": {"team": {"type": "choice", "choice": "billing"}}}, "no field 'probab"),
        (b"<html>", "an answer that isn't JSON"),
        (b'{"answers": {"team": NaN}}', "an answer that isn't JSON"),
        (b"\xff\xfe", "an answer that isn't JSON"),
        ((500, {}), "HTTP 500"),
        ((429, {}), "HTTP 429"),
    ],
)
def test_nonsense_from_a_systemone_server_is_a_counted_failure(made: Any, reason: str) -> None:
    with (
        servers.serving(servers.systemone(lambda body: made)) as server,
        Endpoint(server.url) as endpoint,
    ):
        given = endpoint.ask(TEAM).given["team"]
    assert given.value is None
    assert reason in (given.failure or "")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"probabilities": {"billing": 0.9, "sales": 0.9}}, "sum to 1.800"),
        ({"probabilities": {"billing": "x", "sales": 0.1}}, "'x' is no probability"),
        ({"probabilities": {"billing": 1.0}}, "other options"),
        ({"choice": "legal"}, "'legal' is no legal choice"),
        ({"choice": ["billing"]}, "no legal choice"),
    ],
)
def test_answers_that_contradict_themselves_are_failures(
    change: dict[str, Any], reason: str
) -> None:
    def answer(body: dict[str, Any]) -> Any:
        made = servers.decided(body)
        made["answers"]["team"] |= change
        return made

    with (
        servers.serving(servers.systemone(answer)) as server,
        Endpoint(server.url) as endpoint,
    ):
        assert reason in (endpoint.ask(TEAM).given["team"].failure or "")


def test_a_server_that_is_down_is_named() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
    with pytest.raises(DownError, match=f"{url} can't be reached: .* Is the server running"):
        Endpoint(url)


def test_a_slow_server_is_given_up() -> None:
    with (
        servers.serving(servers.systemone(servers.slow(servers.decided, 0.5))) as server,
        Endpoint(server.url, timeout=0.1) as endpoint,
        pytest.raises(DownError, match=r"didn't answer within 0\.1 s"),
    ):
        endpoint.ask(TEAM)


def test_a_connection_that_is_cut_is_down() -> None:
    with (
        servers.serving(servers.systemone(lambda body: None)) as server,
        Endpoint(server.url) as endpoint,
        pytest.raises(DownError, match="can't be reached"),
    ):
        endpoint.ask(TEAM)


def test_a_wrong_key_is_told_and_the_url_is_kept_without_its_password() -> None:
    with servers.serving(servers.systemone(lambda body: (401, {}))) as server:
        address = server.url.replace("http://", "http://me:word@")
        with Endpoint(address) as endpoint:
            assert endpoint.url == server.url
            with pytest.raises(ReadoffError, match="READOFF_OPPONENT_KEY"):
                endpoint.ask(TEAM)


@pytest.mark.parametrize(
    "url", ["", "localhost:80", "ftp://host", "http://", "http://a:b", "x" * 9]
)
def test_what_is_no_url_is_refused(url: str) -> None:
    with pytest.raises(ReadoffError, match="is no URL"):
        Endpoint(url)
