"""Callers of an `OnnxEngine` that stop waiting, come too late, too many at once, or go first; runs
that fail; damaged weights."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from concurrent.futures import CancelledError, Future
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
import pytest

from readoff.engine.answers import Decision
from readoff.engine.errors import (
    ClosedError,
    DeadlineError,
    NumericsError,
    OverloadedError,
    ReadoffError,
    StepError,
)
from readoff.export.pack import Pack
from readoff.export.running import Running
from readoff.export.runtime import OnnxEngine
from readoff.export.session import GraphSession
from tests.engine.models_on_disk import ASKED, REFUND, STATE
from tests.export.packs import tiny_pack

ONE = {"refund": REFUND}
SOON = 30.0


@pytest.fixture(scope="module")
def pack(tmp_path_factory: pytest.TempPathFactory) -> Pack:
    return tiny_pack(tmp_path_factory.mktemp("m"), "qwen3_5")[1]


@pytest.fixture
def engine(pack: Pack) -> Iterator[OnnxEngine]:
    with OnnxEngine.from_pretrained(pack.folder, threads=1, max_queue=4, step_tokens=64) as made:
        yield made
        assert made.decide("after all that", ONE)["refund"] is not None
        made._worker.scheduler.call(lambda: None)  # what the last run ended is counted by now
        stats = made.stats()
        ends = ("answered", "failed", "cancelled", "expired", "rejected")
        assert stats["requests"] == sum(stats[end] for end in ends)
        assert made._worker.cache is not None
        made._worker.cache.check()
        assert not made._worker.running._ways


@contextmanager
def busy(engine: OnnxEngine) -> Iterator[None]:
    """The engine's thread stands still meanwhile, with no run under way."""
    entered, go = threading.Event(), threading.Event()

    def stand() -> None:
        entered.set()
        assert go.wait(SOON)

    thread = threading.Thread(target=engine._worker.scheduler.call, args=(stand,))
    thread.start()
    assert entered.wait(SOON)
    try:
        yield
    finally:
        go.set()
        thread.join(SOON)


def test_a_full_queue(engine: OnnxEngine) -> None:
    with busy(engine):
        futures = [engine.submit(f"{STATE} {n}", ONE) for n in range(4)]
        with pytest.raises(OverloadedError, match="max_queue is 4") as caught:
            engine.decide(STATE, ONE)
        assert caught.value.depth == 4
    assert all(future.result(SOON)["refund"] for future in futures)
    assert len(engine.decide_many([(f"{n}", ONE) for n in range(9)])) == 9  # waits for room


def test_deadlines(engine: OnnxEngine) -> None:
    with busy(engine):
        with pytest.raises(DeadlineError):
            engine.decide(STATE, ONE, deadline_ms=20)
        with pytest.raises(DeadlineError):
            asyncio.run(engine.adecide(STATE, ONE, deadline_ms=20))
        future = engine.submit("x", ONE, deadline_ms=1)
        time.sleep(0.005)
    with pytest.raises(DeadlineError):
        future.result(SOON)
    assert engine.stats()["steps"] == 0
    assert engine.decide(STATE, ONE, deadline_ms=SOON * 1e3)["refund"] is not None


def test_cancelling(engine: OnnxEngine) -> None:
    with busy(engine):
        future = engine.submit(STATE, ONE)
        assert future.cancel()
    with pytest.raises(CancelledError):
        future.result(SOON)
    engine.decide("another", ONE)
    assert engine.stats()["cancelled"] == 1


def test_cancelled_in_the_middle_of_a_long_state(
    engine: OnnxEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = GraphSession.run
    runs: list[int] = []
    futures: list[Future[Decision]] = []

    def counted(self: GraphSession, *given: Any, **named: Any) -> Any:
        runs.append(1)
        if len(runs) == 4:
            # A running future can't be cancelled; one that waits for its next run can.
            futures[0].cancel()
        return run(self, *given, **named)

    monkeypatch.setattr(GraphSession, "run", counted)
    with busy(engine):
        futures.append(engine.submit("x" * 1500, ONE))
    with pytest.raises(CancelledError):
        futures[0].result(SOON)
    engine.decide("y", ONE)
    assert len(runs) < 1500 // 64


def test_urgent_requests_go_between_the_parts_of_a_long_state(engine: OnnxEngine) -> None:
    done: list[str] = []

    def note(name: str, _: object) -> None:
        done.append(name)

    with busy(engine):
        long = engine.submit("x" * 1500, ONE)
        late = engine.submit("y" * 30, ONE)
        soon = engine.submit("z" * 30, ONE, priority=1)
        for name, future in (("long", long), ("late", late), ("soon", soon)):
            future.add_done_callback(partial(note, name))
    assert all(future.result(SOON)["refund"] for future in (long, late, soon))
    engine._worker.scheduler.call(lambda: None)
    assert done == ["soon", "long", "late"]


def test_callers_about_one_state_share_its_run(engine: OnnxEngine) -> None:
    with busy(engine):
        futures = [engine.submit(STATE, {f"q{n}": ASKED[name]}) for n, name in enumerate(ASKED)]
    found = [future.result(SOON) for future in futures]
    state = len(engine.renderer.prefix(STATE))
    assert sum(d.usage.computed_tokens for d in found) == engine.stats()["computed_tokens"]
    assert [d.usage.computed_tokens < state for d in found] == [False, True, True]


def test_a_run_that_fails_fails_those_in_it_alone(
    engine: OnnxEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(GraphSession, "run", lambda *_, **__: 1 / 0)
        with pytest.raises(StepError, match="ZeroDivisionError") as caught:
            engine.decide(STATE, ONE)
        assert isinstance(caught.value.__cause__, ZeroDivisionError)
    engine.decide(STATE, ONE)
    with monkeypatch.context() as patch:
        patch.setattr(Running, "_read", lambda *_: 1 / 0)
        with pytest.raises(StepError):
            engine.decide(STATE, ONE)


def test_numbers_that_are_not_finite_fail_their_own_question(
    engine: OnnxEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = GraphSession.run
    bad = engine.renderer.render(STATE, ONE)[0].labels.ids

    def spoilt(self: GraphSession, *given: Any, **named: Any) -> Any:
        outcome = run(self, *given, **named)
        labels = given[4]
        if any(tuple(row) == bad for row in labels.ids[:, :2].tolist()) and labels.counts.min() > 1:
            raise NumericsError("not finite")
        return outcome

    monkeypatch.setattr(GraphSession, "run", spoilt)
    with busy(engine):
        good = engine.submit(STATE, {"team": ASKED["team"]})
        other = engine.submit(STATE, ONE)
    assert good.result(SOON)["team"].logits
    with pytest.raises(NumericsError, match=r"Question 'refund'.*weights may be damaged\."):
        other.result(SOON)
    monkeypatch.undo()


def test_a_state_that_is_not_finite(engine: OnnxEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    run = GraphSession._outcome

    def spoilt(self: GraphSession, found: dict[str, Any]) -> Any:
        return run(self, found | {"logits": np.full_like(found["logits"], np.nan)})

    monkeypatch.setattr(GraphSession, "_outcome", spoilt)
    with pytest.raises(NumericsError, match="aren't finite"):
        engine.decide(STATE, ONE)
    monkeypatch.undo()
    assert engine._worker.cache is not None
    assert len(engine._worker.cache) == 0


def test_a_callback_cannot_wait_for_its_own_thread(engine: OnnxEngine) -> None:
    caught: list[BaseException] = []

    def ask(_: object) -> None:
        try:
            engine.decide(STATE, ONE)
        except ReadoffError as error:
            caught.append(error)

    future = engine.submit(STATE, ONE)
    with busy(engine):
        other = engine.submit(STATE, ONE)
        other.add_done_callback(ask)
    future.result(SOON)
    other.result(SOON)
    engine._worker.scheduler.call(lambda: None)
    assert "can't wait for the engine" in str(caught[0])


def test_closing(pack: Pack) -> None:
    engine = OnnxEngine.from_pretrained(pack.folder)
    engine.decide(STATE, ONE)
    with busy(engine):
        future = engine.submit(STATE, ONE)
        closer = threading.Thread(target=engine.close)
        closer.start()
        with pytest.raises(ClosedError):
            future.result(SOON)
    closer.join(SOON)
    engine.close()
    assert engine._worker.cache is not None
    assert len(engine._worker.cache) == 0
    with pytest.raises(ClosedError, match="is closed"):
        engine.decide(STATE, ONE)
