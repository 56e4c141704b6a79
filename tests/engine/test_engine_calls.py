"""Callers of an engine that stop waiting, come too late, too many at once, or to a closed one."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from readoff.engine.engine import Engine
from readoff.engine.errors import (
    BudgetError,
    ClosedError,
    DeadlineError,
    OverloadedError,
    ReadoffError,
    StepError,
)

from .models_on_disk import ASKED, REFUND, STATE, save_decider

ONE = {"refund": REFUND}
SOON = 30.0


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model")
    save_decider(path, layers=2)
    return path


@pytest.fixture
def engine(folder: Path) -> Iterator[Engine]:
    with Engine.from_pretrained(folder, dtype="fp32", max_queue=4) as made:
        yield made
        assert made.decide("after all that", ONE)["refund"] is not None
        stats = made.stats()
        ends = ("answered", "failed", "cancelled", "expired", "rejected")
        assert stats["requests"] == sum(stats[end] for end in ends)
        cache = made._worker.cache
        assert cache is not None
        cache.check_integrity()
        assert not cache._pinned


@contextmanager
def busy(engine: Engine) -> Iterator[None]:
    """The engine's thread stands still meanwhile, with no pass running."""
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


@contextmanager
def failing(engine: Engine, error: Exception) -> Iterator[None]:
    """Every pass raises meanwhile."""

    def fail(*_: Any) -> None:
        raise error

    hook = engine.backbone.register_forward_pre_hook(fail)
    try:
        yield
    finally:
        hook.remove()


def test_a_full_queue_says_how_deep_it_is(engine: Engine) -> None:
    with busy(engine):
        futures = [engine.submit(f"{STATE} {n}", ONE) for n in range(4)]
        with pytest.raises(OverloadedError, match="max_queue is 4") as caught:
            engine.decide(STATE, ONE)
        assert caught.value.depth == 4
        with pytest.raises(OverloadedError):
            asyncio.run(engine.adecide(STATE, ONE))
        assert engine.stats()["waiting"] == 4
    assert all(future.result(SOON)["refund"] for future in futures)
    assert len(engine.decide_many([(f"{n}", ONE) for n in range(9)])) == 9  # waits for room


def test_a_deadline_that_is_missed_while_waiting(engine: Engine) -> None:
    with busy(engine):
        start = time.perf_counter()
        with pytest.raises(DeadlineError, match="deadline"):
            engine.decide(STATE, ONE, deadline_ms=20)
        with pytest.raises(DeadlineError):
            asyncio.run(engine.adecide(STATE, ONE, deadline_ms=20))
        with pytest.raises(DeadlineError):
            engine.decide_many([(STATE, ONE)] * 2, deadline_ms=20)
        assert time.perf_counter() - start < SOON / 2
        future = engine.submit("x", ONE, deadline_ms=1)  # those above make room
        time.sleep(0.005)
    with pytest.raises(TimeoutError):  # which a DeadlineError is
        future.result(SOON)
    assert engine.stats()["steps"] == 0


def test_a_deadline_that_has_passed_already_or_passes_with_the_pass(engine: Engine) -> None:
    with pytest.raises(DeadlineError):
        engine.decide(STATE, ONE, deadline_ms=0)
    hook = engine.backbone.register_forward_pre_hook(lambda *_: time.sleep(0.3))
    future = engine.submit(STATE, ONE, deadline_ms=150)
    with pytest.raises(DeadlineError):
        future.result(SOON)
    hook.remove()
    stats = engine.stats()
    assert (stats["expired"], stats["answered"]) == (2, 0)
    assert engine.decide(STATE, ONE, deadline_ms=1e6).usage.cached_tokens > 0


@pytest.mark.parametrize(
    "bad",
    [
        {"priority": "high"},
        {"priority": 1.5},
        {"priority": True},
        {"deadline_ms": -1},
        {"deadline_ms": float("nan")},
        {"deadline_ms": float("inf")},
        {"deadline_ms": "soon"},
        {"deadline_ms": True},
    ],
)
def test_priorities_and_deadlines_that_are_none(engine: Engine, bad: dict[str, Any]) -> None:
    with pytest.raises(ReadoffError, match=next(iter(bad))):
        engine.decide(STATE, ONE, **bad)


@pytest.mark.parametrize("how", [{}, {"gate": 0.5}], ids=["plain", "gated"])
def test_cancelled_futures_and_tasks(engine: Engine, how: dict[str, Any]) -> None:
    async def leave() -> None:
        task = asyncio.create_task(engine.adecide(STATE, ONE, **how))
        while engine.stats()["waiting"] < 2:
            await asyncio.sleep(0.001)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    with busy(engine):
        future = engine.submit(STATE, ONE)
        asyncio.run(leave())
        assert future.cancel()
    with pytest.raises(CancelledError):
        future.result(SOON)
    engine.decide("next", ONE)
    stats = engine.stats()
    assert (stats["cancelled"], stats["answered"], stats["steps"]) == (2, 1, 1)


def test_higher_priorities_are_answered_first(folder: Path) -> None:
    order: list[str] = []
    with Engine.from_pretrained(folder, dtype="fp32", step_tokens=64) as engine:
        with busy(engine):
            for name, priority in (("low", -1), ("normal", 0), ("high", 9)):
                future = engine.submit(STATE + name, ONE, priority=priority)
                future.add_done_callback(lambda _, name=name: order.append(name))
        engine.decide("z", ONE, priority=-9)
    assert order == ["high", "normal", "low"]


def test_a_long_state_lets_short_ones_pass(folder: Path) -> None:
    order: list[str] = []
    with Engine.from_pretrained(folder, dtype="fp32", step_tokens=512) as engine:
        with busy(engine):
            for name, state in (("long", "x" * 1800), ("short", "y")):
                future = engine.submit(state, ONE)
                future.add_done_callback(lambda _, name=name: order.append(name))
        future.result(SOON)
        engine.decide("x" * 1800, ONE)
    assert order == ["short", "long"]


def test_waiting_for_company(folder: Path) -> None:
    with Engine.from_pretrained(folder, dtype="fp32", max_wait_ms=150) as engine:
        futures = [engine.submit(f"{n}", ONE) for n in range(3)]
        assert all(future.result(SOON)["refund"] for future in futures)
        assert engine.stats()["steps"] == 1


def test_a_pass_that_fails_fails_its_requests_and_no_others(engine: Engine) -> None:
    with failing(engine, ValueError("a cosmic ray")):
        with pytest.raises(StepError, match="cosmic ray") as caught:
            engine.decide(STATE, ONE)
        assert isinstance(caught.value.__cause__, ValueError)
        with pytest.raises(StepError):
            engine.prefill(STATE)
    decision = engine.decide(STATE, ONE)
    assert decision.usage.cached_tokens == 0
    assert engine.stats()["failed"] == 2


def test_memory_that_runs_out_is_told_after_smaller_steps(engine: Engine) -> None:
    with failing(engine, MemoryError()), pytest.raises(BudgetError, match="memory for a prompt"):
        engine.decide(STATE, ASKED)
    assert engine.stats()["retries"] >= 2


def test_a_budget_that_no_prompt_fits(folder: Path) -> None:
    with pytest.raises(BudgetError, match="cache_bytes=1000 is less than the shortest prompt"):
        Engine.from_pretrained(folder, dtype="fp32", cache_bytes=1000)
    with Engine.from_pretrained(folder, dtype="fp32", cache_bytes=70_000) as engine:
        for _ in range(2):
            with pytest.raises(BudgetError, match=r"needs about .* MiB, and cache_bytes allows"):
                engine.decide(STATE, ONE)
        assert engine.stats()["failed"] == 2
        assert engine.stats()["steps"] == 0


def test_a_closed_engine(folder: Path) -> None:
    with Engine.from_pretrained(folder, dtype="fp32") as engine, busy(engine):
        waiting = [engine.submit(f"{n}", ONE) for n in range(3)]
        threading.Thread(target=engine.close).start()
        for future in waiting:
            with pytest.raises(ClosedError, match="closed before"):
                future.result(SOON)
    engine.close()
    for call in (
        lambda: engine.decide(STATE, ONE),
        lambda: engine.decide_many([(STATE, ONE)]),
        lambda: engine.submit(STATE, ONE),
        lambda: engine.prefill(STATE),
        lambda: asyncio.run(engine.adecide(STATE, ONE)),
    ):
        with pytest.raises(ClosedError, match="is closed"):
            call()
    assert engine.stats()["cache"]["held_bytes"] == 0
    assert engine.info()["model"]


def test_debiased_work_that_waits_for_a_thread_is_dropped_with_its_task(engine: Engine) -> None:
    release = threading.Event()
    engine._aside._threads = ThreadPoolExecutor(1)
    holder = engine._aside._threads.submit(release.wait, SOON)

    async def leave() -> None:
        task = asyncio.create_task(engine.adecide(STATE, ONE, debias="prior"))
        await asyncio.sleep(0.02)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        with pytest.raises(DeadlineError):  # it counts while no thread is free
            await engine.adecide(STATE, ONE, debias="prior", deadline_ms=30)

    before = engine.stats()["requests"]
    try:
        asyncio.run(asyncio.wait_for(leave(), SOON))
        assert not holder.done()
    finally:
        release.set()
    engine._aside._threads.shutdown()
    assert engine.stats()["requests"] == before


def test_debiased_work_under_way_ends_before_its_cancelled_task(engine: Engine) -> None:
    async def leave() -> None:
        task = asyncio.create_task(engine.adecide(STATE, ONE, debias="prior"))
        while engine.stats()["waiting"] < 2:
            await asyncio.sleep(0.001)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        engine._aside._threads.shutdown()  # and so nothing of it runs
        engine._aside._threads = ThreadPoolExecutor(1)

    with busy(engine):
        asyncio.run(asyncio.wait_for(leave(), SOON))
    assert asyncio.run(engine.adecide(STATE, ONE, debias="prior", deadline_ms=1e7))


@pytest.mark.parametrize("bad", [-1, float("nan"), float("inf"), "soon", True])
def test_deadlines_of_debiased_work_that_are_none(engine: Engine, bad: Any) -> None:
    with pytest.raises(ReadoffError, match="deadline_ms"):
        asyncio.run(engine.adecide(STATE, ONE, debias="prior", deadline_ms=bad))
