"""`OnnxEngine` answers like `Engine` in fp32, however it is asked, and computes what it must."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from readoff.engine.answers import Answer, Decision, Verdict, stated_answer
from readoff.engine.card_fields import Debias
from readoff.engine.engine import Engine
from readoff.engine.errors import BudgetError, ContextError, QuestionError, ReadoffError
from readoff.engine.questions import Choice, Noul, Question, Score
from readoff.engine.text import Text
from readoff.export import running
from readoff.export.pack import Pack
from readoff.export.runtime import OnnxEngine
from readoff.export.session import GraphSession
from tests.engine.models_on_disk import ASKED, REFUND, STATE, TEAM
from tests.export.packs import BOUND, CARD, cached, distance, tiny_pack, values
from tests.models import ARCHITECTURES


@dataclass(frozen=True)
class Both:
    """The same model behind both engines."""

    torch: Engine
    onnx: OnnxEngine
    pack: Pack


@pytest.fixture(scope="module", params=ARCHITECTURES)
def both(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Both]:
    source, pack = tiny_pack(tmp_path_factory.mktemp("m"), request.param, card=CARD)
    with (
        Engine.from_pretrained(source, dtype="fp32", card=CARD, threads=1) as torch_engine,
        OnnxEngine.from_pretrained(pack.folder, threads=1) as onnx_engine,
    ):
        yield Both(torch_engine, onnx_engine, pack)


@pytest.mark.parametrize(
    "state",
    [
        STATE,
        "a",
        "x" * 55,
        "x" * 56,
        "x" * 57,
        "x" * 192,
        "ab" * 500,
        {"subject": "Refund", "lines": [1, None, {"deep": "ü"}]},
        [STATE, "second", "z" * 200, "fourth"],
        [],
    ],
)
def test_answers_are_those_of_the_torch_engine(both: Both, state: Text) -> None:
    both.onnx.clear_cache()
    cold, warm = both.onnx.decide(state, ASKED), both.onnx.decide(state, ASKED)
    expected = both.torch.decide(state, ASKED)
    assert distance(cold, expected) <= BOUND
    assert distance(warm, expected) <= BOUND
    assert cold.usage.input_tokens == expected.usage.input_tokens
    assert cached(cold) == 0
    questions = both.torch.decide(state, ASKED).usage  # warm: only its own tokens
    assert warm.usage == questions
    assert cold.model == both.pack.name


def test_every_way_of_asking_gives_the_same(both: Both) -> None:
    states = [STATE, f"{STATE} Again.", "Something else."]
    requests: list[tuple[Text, Mapping[str, Question]]] = [(state, ASKED) for state in states]
    both.onnx.clear_cache()
    alone = [both.onnx.decide(*request) for request in requests]
    both.onnx.clear_cache()
    many = both.onnx.decide_many(requests * 2)
    both.onnx.clear_cache()
    futures = [both.onnx.submit(*request) for request in requests]

    async def ask() -> list[Decision]:
        return await asyncio.gather(*(both.onnx.adecide(*request) for request in requests))

    for found in (many[:3], many[3:], [f.result(30) for f in futures], asyncio.run(ask())):
        assert [distance(a, b) <= 1e-5 for a, b in zip(found, alone, strict=True)] == [True] * 3


def test_questions_are_isolated(both: Both) -> None:
    alone = both.onnx.decide(STATE, {"team": TEAM})
    for length in (1, 2, 3, 4, 5, 63, 64, 65):
        loud = Noul(instructions="A IS B! " * length)
        found = both.onnx.decide(STATE, {"loud": loud, "team": TEAM})
        assert distance({"team": found["team"]}, alone) <= 1e-5


def test_many_labels_and_rows_of_other_lengths(both: Both) -> None:
    asked: dict[str, Question] = {
        str(n): Choice(criteria={f"option {i}": None for i in range(n)}) for n in (2, 26, 27, 100)
    }
    asked |= {"levels": Score(criteria=[f"l{i}" for i in range(10)])}
    assert distance(both.onnx.decide("x", asked), both.torch.decide("x", asked)) <= BOUND


@pytest.mark.parametrize("mode", ["prior", "rotate", "both"])
def test_debiasing(both: Both, mode: Debias) -> None:
    found = both.onnx.decide(STATE, ASKED, debias=mode, rotations=3)
    assert distance(found, both.torch.decide(STATE, ASKED, debias=mode, rotations=3)) <= BOUND


def test_gate_and_escalation(both: Both) -> None:
    def escalate(state: Text, question: Question) -> Answer:
        assert state == STATE
        return stated_answer(question, question.options[-1])

    found = both.onnx.decide(STATE, {"team": TEAM}, gate=1.0, escalate=escalate)
    assert found.verdicts == {"team": Verdict(False, "escalation")}
    assert values(found["team"]) == [0.0, 0.0, 1.0]
    future = both.onnx.submit(STATE, {"team": TEAM})
    assert future.result(30).verdicts == {}


def test_a_state_that_grows_keeps_its_past(both: Both) -> None:
    both.onnx.clear_cache()
    parts: list[Any] = [f"step {n}: " + "w" * 40 * n for n in range(4)]
    for length in range(1, 5):
        found = both.onnx.decide(parts[:length], {"refund": REFUND})
        expected = both.torch.decide(parts[:length], {"refund": REFUND})
        assert distance(found, expected) <= BOUND
        if length > 1:
            whole = both.torch.renderer.prefix(parts[: length - 1])
            assert cached(found) == len(whole)


def test_states_that_share_a_beginning(both: Both) -> None:
    both.onnx.clear_cache()
    first = both.onnx.decide(STATE + "x" * 100, {"refund": REFUND})
    found = both.onnx.decide(STATE + "y" * 90, {"refund": REFUND})
    assert distance(found, both.torch.decide(STATE + "y" * 90, {"refund": REFUND})) <= BOUND
    preamble = len(both.torch.renderer.prefix(STATE).pieces[0].ids)
    assert cached(first) == 0
    shared = len(both.torch.renderer.tokenizer.encode_text(f"State:\n{STATE}"))
    whole = preamble if both.pack.config.is_hybrid else preamble + shared
    assert cached(found) == whole


@pytest.mark.parametrize("step_tokens", [64, 128])
def test_long_states_and_questions_run_in_parts(both: Both, step_tokens: int) -> None:
    long = Noul(instructions="Is it so? " * 30)
    asked: dict[str, Question] = {"long": long, "team": TEAM}
    state: Text = ["s" * 777, "t" * 30, "u"]
    expected = both.torch.decide(state, asked)
    with OnnxEngine.from_pretrained(both.pack.folder, threads=1, step_tokens=step_tokens) as engine:
        found = engine.decide(state, asked)
        assert distance(found, expected) <= BOUND
        assert engine.stats()["steps"] >= (777 + 300) // step_tokens
        assert engine.stats()["computed_tokens"] == found.usage.input_tokens
        again = engine.decide(state, asked)
        assert distance(again, expected) <= BOUND
        assert again.usage.computed_tokens == both.torch.decide(state, asked).usage.computed_tokens


@pytest.mark.parametrize("cache_bytes", [0, 200_000])
def test_little_or_no_room_for_the_cache(both: Both, cache_bytes: int) -> None:
    with OnnxEngine.from_pretrained(both.pack.folder, threads=1, cache_bytes=cache_bytes) as engine:
        for number in range(4):
            state = f"{number}" * 150
            found = engine.decide(state, ASKED)
            assert distance(found, both.torch.decide(state, ASKED)) <= BOUND
        stats = engine.stats()
        if cache_bytes:
            assert stats["cache"]["used_bytes"] <= cache_bytes
            assert engine._worker.cache is not None
            engine._worker.cache.check()
        else:
            assert "cache" not in stats
            with pytest.raises(ReadoffError, match="cache_bytes=0"):
                engine.prefill(STATE)


def test_a_cache_for_less_than_a_prompt(both: Both) -> None:
    """As the torch engine: said when it is loaded."""
    with pytest.raises(BudgetError, match=r"cache_bytes=1 is less .* needs, (\d+)") as caught:
        OnnxEngine.from_pretrained(both.pack.folder, cache_bytes=1)
    least = int(str(caught.value).split("needs, ")[1].split(".")[0])
    with pytest.raises(BudgetError, match="shortest prompt"):
        OnnxEngine.from_pretrained(both.pack.folder, cache_bytes=least - 1)
    OnnxEngine.from_pretrained(both.pack.folder, cache_bytes=least).close()


def test_without_a_cache_nothing_is_held(both: Both) -> None:
    with OnnxEngine.from_pretrained(both.pack.folder, threads=1, cache_bytes=0) as engine:
        engine.decide(STATE, ASKED)
        worker = engine._worker
        worker.scheduler.call(lambda: None)  # the thread is done with the request by then
        assert worker.running._fed is None
        assert worker.running._ways == {}


def test_of_a_long_state_the_last_part_is_held_whole(
    both: Both, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not both.pack.config.is_hybrid:
        pytest.skip("keys and values alone")
    run, left, most = GraphSession.run, list[weakref.ref[Any]](), list[int]()

    def watched(self: GraphSession, *given: Any) -> Any:
        outcome = run(self, *given)
        left.append(weakref.ref(outcome.new["new.0.state"]))
        most.append(sum(held() is not None for held in left))
        return outcome

    monkeypatch.setattr(GraphSession, "run", watched)
    asked = {"long": Noul(instructions="Is it so? " * 80)}
    with OnnxEngine.from_pretrained(both.pack.folder, threads=1, step_tokens=64) as engine:
        found = engine.decide("s" * 777, asked)
    assert len(most) > 20
    assert max(most) <= 3  # the one before, which was fed, the new one, and the state's
    assert distance(found, both.torch.decide("s" * 777, asked)) <= BOUND


def test_a_state_is_warmed(both: Both) -> None:
    both.onnx.clear_cache()
    usage = both.onnx.prefill(STATE)
    assert usage.computed_tokens == usage.input_tokens == both.torch.prefill(STATE).input_tokens
    assert both.onnx.prefill(STATE).computed_tokens == 0
    assert cached(both.onnx.decide(STATE, ASKED)) == usage.input_tokens


def test_equal_questions_run_once(both: Both) -> None:
    both.onnx.prefill(STATE)
    before = both.onnx.stats()["computed_tokens"]
    plain = {"a": Noul(instructions="It rains.")}
    both.onnx.decide_many([(STATE, plain)] * 5)
    one = both.onnx.stats()["computed_tokens"] - before
    both.onnx.decide(STATE, plain)
    assert both.onnx.stats()["computed_tokens"] - before == 2 * one


def test_too_long_for_the_model(both: Both) -> None:
    with pytest.raises(ContextError, match="takes 2048") as caught:
        both.onnx.decide("x" * 3000, ASKED)
    assert caught.value.limit == both.onnx.context_length == 2048
    with pytest.raises(ContextError):
        both.onnx.prefill("x" * 3000)
    with pytest.raises(QuestionError):
        both.onnx.decide(STATE, {})


def test_the_legal_mass_is_refused(both: Both) -> None:
    with pytest.raises(ReadoffError, match="can't measure the legal mass"):
        both.onnx.decide(STATE, ASKED, legal_mass=True)


def test_what_is_told_of_it(both: Both) -> None:
    info = both.onnx.info()
    assert info["architecture"] == both.pack.config.architecture
    assert (info["model"], info["device"], info["dtype"]) == ("model", "cpu", "float32")
    assert info["provider"]["name"] == "CPUExecutionProvider"
    assert set(both.torch.info()) <= set(info)
    assert info["template"] == both.torch.info()["template"]
    both.onnx.decide(STATE, ASKED)
    stats = both.onnx.stats()
    assert set(both.torch.stats()) - {"retries"} <= set(stats)
    assert stats["requests"] >= stats["answered"] > 0
    both.onnx.clear_cache()
    assert both.onnx.stats()["cache"]["used_bytes"] == 0


def test_a_run_has_a_bounded_number_of_scores(both: Both, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond it rows and parts become fewer and shorter; no answer changes."""
    bound = both.pack.config.num_heads * 128 * 600
    monkeypatch.setattr(running, "SCORES", bound)
    run, seen = GraphSession.run, list[tuple[int, int, int]]()

    def watched(self: GraphSession, tokens: Any, lengths: Any, past: Any, *rest: Any) -> Any:
        rows, time = tokens.shape
        seen.append((rows, time, past[0] + time))
        return run(self, tokens, lengths, past, *rest)

    monkeypatch.setattr(GraphSession, "run", watched)
    both.onnx.clear_cache()
    state = "m" * 1400
    asked = {str(n): Noul(instructions=f"Question {n}? " + "k" * n) for n in range(20)}
    found = both.onnx.decide(state, asked)
    assert distance(found, both.torch.decide(state, asked)) <= BOUND
    heads = both.pack.config.num_heads
    for rows, time, keys in seen:
        assert rows * time * keys * heads <= bound or (rows == 1 and time <= 64)
    assert max(time for rows, time, _ in seen if rows == 1) > 64
