"""The ecosystem's official client, sync and async, against a server with a socket."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
import typesafe_sdk as sdk

from readoff.engine.engine import Engine
from readoff.engine.errors import DeadlineError
from readoff.serve.settings import Settings

from .rig import Borrowed, Held, Running, running, wait_for

KEY = "sk-test"
QUESTIONS = {
    "refund": sdk.Noul(instructions="Do they want money back?"),
    "sided": sdk.Noul(criteria={"true": "yes"}),
    "team": sdk.Choice(instructions="Which team?", criteria={"billing": "money", "Ünïcode": None}),
    "anger": sdk.Score(instructions={"rate": "anger"}, criteria=["calm", {"label": "cross"}]),
}
STATES = ["I was charged twice.", {"subject": "Bill", "lines": [1, 2]}, ["one", {"two": None}]]
FAST = sdk.RetryPolicy(backoff_initial=0.01, backoff_max=0.01)
LIMITS = Settings(max_queue=1, body_limit=100_000, drain_seconds=0)


@pytest.fixture(scope="module")
def server(shared: Engine) -> Iterator[Running]:
    with running(Borrowed(shared), LIMITS, keys=[KEY]) as found:
        yield found


@pytest.fixture
def client(server: Running) -> Iterator[sdk.TypeSafeClient]:
    with sdk.TypeSafeClient(api_key=KEY, base_url=server.url, retry=FAST) as made:
        yield made


def check(result: sdk.SystemOneResponse) -> None:
    assert result.model == "tiny"
    assert list(result.answers) == list(QUESTIONS)
    assert 0 <= result.nouls["refund"].noul <= 1
    team = result.choices["team"]
    assert set(team.probabilities) == {"billing", "Ünïcode"}
    assert team.choice == max(team.probabilities, key=team.probabilities.__getitem__)
    anger = result.scores["anger"]
    assert set(anger.probabilities) == set(anger.legend) == {0, 1}
    assert anger.score == pytest.approx(anger.probabilities[1], abs=1e-6)
    assert result.usage.input_tokens
    assert result.usage.output_tokens == len(QUESTIONS)


@pytest.mark.parametrize("state", STATES, ids=["text", "object", "array"])
def test_every_type_of_answer(client: sdk.TypeSafeClient, state: object) -> None:
    check(client.system_one(state=state, questions=QUESTIONS))  # type: ignore[arg-type]


def test_async(server: Running) -> None:
    async def ask() -> None:
        async with sdk.AsyncTypeSafeClient(api_key=KEY, base_url=server.url, retry=FAST) as client:
            check(await client.system_one(state=STATES[0], questions=QUESTIONS))
            assert [m.name for m in (await client.models.list()).models] == ["tiny", "jev-latest"]
            with pytest.raises(sdk.TypeSafeUnprocessableEntityError):
                await client.system_one(state="a" * 9000, questions=QUESTIONS)

    asyncio.run(ask())


def test_models(client: sdk.TypeSafeClient) -> None:
    (first, _) = client.models.list().models
    assert (first.name, first.release_date) == ("tiny", "2026-01-01")


def requests(server: Running) -> int:
    return server.log.getvalue().count('"route": "/v1/systemone"')


def test_errors_have_their_classes_and_are_not_repeated(
    client: sdk.TypeSafeClient, server: Running
) -> None:
    def ask(**how: object) -> None:
        asked = {"state": "x", "questions": {"q": {"type": "noul", "instructions": "Is it?"}}} | how
        client.system_one(**asked)  # type: ignore[arg-type]

    map_form = {"q": {"type": "score", "criteria": {"0": "a", "1": "b"}}}
    cases: list[tuple[type[Exception], int, dict[str, object]]] = [
        (sdk.TypeSafeUnprocessableEntityError, 422, {"questions": map_form}),
        (sdk.TypeSafeUnprocessableEntityError, 422, {"state": "a" * 9000}),
        (sdk.TypeSafeBadRequestError, 400, {"model": "nobody"}),
        (sdk.TypeSafeAPIError, 413, {"state": "a" * 200_000}),
        (
            sdk.TypeSafeUnprocessableEntityError,
            422,
            {"extra_headers": {"x-readoff-deadline-ms": "soon"}},
        ),
    ]
    for kind, status, how in cases:
        before = requests(server)
        with pytest.raises(kind) as caught:
            ask(**how)
        error = caught.value
        assert isinstance(error, sdk.TypeSafeAPIError)
        assert error.status == status
        assert error.request_id is not None
        assert error.request_id.startswith("req_")
        assert server_settles(server, before + 1)
    with pytest.raises(sdk.TypeSafeUnprocessableEntityError, match=r"questions\.q\.score\.crit"):
        ask(questions=map_form)


def server_settles(server: Running, count: int) -> bool:
    """Exactly so many requests came, a moment later too."""
    wait_for(lambda: requests(server) >= count)
    return requests(server) == count


def test_a_wrong_key_is_not_repeated(server: Running) -> None:
    before = requests(server)
    with (
        sdk.TypeSafeClient(api_key="wrong", base_url=server.url, retry=FAST) as client,
        pytest.raises(sdk.TypeSafeAuthenticationError),
    ):
        client.system_one(state="x", questions=QUESTIONS)
    assert server_settles(server, before + 1)


def test_overload_is_repeated_when_the_server_says_so() -> None:
    engine = Held()
    limits = Settings(max_queue=1, drain_seconds=0)

    async def ask(url: str) -> None:
        async with sdk.AsyncTypeSafeClient(api_key="any", base_url=url, retry=FAST) as client:
            questions = {"q": {"type": "noul", "instructions": "Is it?"}}
            first = asyncio.create_task(client.system_one(state="x", questions=questions))
            while engine.asked == 0 and not first.done():
                await asyncio.sleep(0.01)
            with pytest.raises(sdk.TypeSafeRateLimitError) as caught:
                await client.system_one(
                    state="x", questions=questions, retry=sdk.RetryPolicy(max_retries=0)
                )
            assert caught.value.retry_after_ms is not None
            assert caught.value.retry_after_ms >= 50
            second = asyncio.create_task(client.system_one(state="x", questions=questions))
            await asyncio.sleep(0.05)
            engine.open.set()
            assert (await first).model == (await second).model == "tiny"

    with running(engine, limits) as server:
        asyncio.run(ask(server.url))
        assert server.log.getvalue().count('"status": 429') >= 2
    assert engine.asked == 2


def test_a_missed_deadline_is_repeated_and_then_told() -> None:
    engine = Held(error=DeadlineError("late"))
    engine.open.set()
    with (
        running(engine) as server,
        sdk.TypeSafeClient(api_key="any", base_url=server.url, retry=FAST) as client,
        pytest.raises(sdk.TypeSafeAPIError, match="late") as caught,
    ):
        client.system_one(state="x", questions={"q": {"type": "noul", "instructions": "Is it?"}})
    assert caught.value.status == 408
    assert engine.asked == 3
