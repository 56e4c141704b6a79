"""Many callers, little memory, cancellations, deadlines and faults: everyone gets their due."""

from __future__ import annotations

import asyncio
import random
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import CancelledError, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from readoff.engine.answers import Decision
from readoff.engine.engine import Engine
from readoff.engine.errors import DeadlineError, StepError
from readoff.engine.questions import Question
from tests import models

from .models_on_disk import ANGER, REFUND, TEAM, save_decider
from .test_engine_cache import near

QUESTIONS: list[dict[str, Question]] = [{"team": TEAM}, {"anger": ANGER}, {"refund": REFUND}]
CALLERS = 64
WAIT = 120.0


class Soak:
    """Requests at random from threads and tasks, each of which notes how it ended."""

    def __init__(self, engine: Engine, states: list[Any], wanted: dict[tuple[int, int], Decision]):
        self.engine, self.states, self.wanted = engine, states, wanted
        self.ends: Counter[str] = Counter()
        self.wrong: list[str] = []
        self._lock = threading.Lock()

    def plan(self, seed: int, count: int) -> Iterator[tuple[int, int, str]]:
        chance = random.Random(seed)
        for _ in range(count):
            event = chance.choices(("plain", "cancel", "late"), (87, 10, 3))[0]
            yield chance.randrange(len(self.states)), chance.randrange(3), event

    def note(self, end: str, state: int = 0, asked: int = 0, found: Decision | None = None) -> None:
        with self._lock:
            self.ends[end] += 1
            if found is not None and not near(found, self.wanted[state, asked]):
                self.wrong.append(f"state {state}, question {asked}")

    def thread(self, seed: int, count: int) -> None:
        for state, asked, event in self.plan(seed, count):
            deadline = 1.0 if event == "late" else None
            future = self.engine.submit(self.states[state], QUESTIONS[asked], deadline_ms=deadline)
            if event == "cancel":
                future.cancel()
            try:
                self.note("answered", state, asked, future.result(WAIT))
            except CancelledError:
                self.note("cancelled")
            except DeadlineError:
                self.note("expired")
            except StepError:
                self.note("failed")

    async def task(self, seed: int, count: int) -> None:
        for state, asked, event in self.plan(seed, count):
            deadline = 1.0 if event == "late" else None
            asking = asyncio.create_task(
                self.engine.adecide(self.states[state], QUESTIONS[asked], deadline_ms=deadline)
            )
            if event == "cancel":
                await asyncio.sleep(0.001)
                asking.cancel()
            try:
                self.note("answered", state, asked, await asyncio.wait_for(asking, WAIT))
            except asyncio.CancelledError:
                self.note("cancelled")
            except DeadlineError:
                self.note("expired")
            except StepError:
                self.note("failed")

    def run(self, requests: int) -> None:
        share, rest = divmod(requests, 2 * CALLERS)
        counts = [share + (n < rest) for n in range(2 * CALLERS)]

        async def tasks() -> None:
            await asyncio.gather(*(self.task(n, counts[n]) for n in range(CALLERS, 2 * CALLERS)))

        with ThreadPoolExecutor(CALLERS + 1) as executor:
            futures = [executor.submit(self.thread, n, counts[n]) for n in range(CALLERS)]
            futures.append(executor.submit(asyncio.run, tasks()))
            for future in futures:
                future.result(10 * WAIT)


@pytest.mark.parametrize(
    ("architecture", "requests"),
    [
        ("qwen2", 250),
        ("qwen3_5", 250),
        pytest.param("qwen2", 5000, marks=pytest.mark.slow),
        pytest.param("qwen3_5", 5000, marks=pytest.mark.slow),
    ],
)
def test_soak(architecture: models.Architecture, requests: int, tmp_path: Path) -> None:
    """5,000 requests over 200 states with a quarter of the memory that these need (here a tenth
    of both): a tenth cancelled, some past their deadline, one step in a hundred fails."""
    layers = 4 if architecture == "qwen3_5" else 2
    save_decider(tmp_path, architecture, layers=layers, hidden=32)
    count = 200 if requests > 1000 else 20
    states: list[Any] = []
    for n in range(count):
        story = [f"Customer {n % 7} writes on day {d}." for d in range(1 + n % 4)]
        states.append([*story, f"Case {n}."] if n % 2 else f"Case {n}: " + " ".join(story))
    with Engine.from_pretrained(tmp_path, dtype="fp32", cache_bytes=1 << 30) as first:
        pairs = [(state, asked) for state in range(count) for asked in range(3)]
        found = first.decide_many([(states[s], QUESTIONS[a]) for s, a in pairs])
        wanted = dict(zip(pairs, found, strict=True))
        needed = first.stats()["cache"]["used_bytes"]
    engine = Engine.from_pretrained(tmp_path, dtype="fp32", cache_bytes=needed // 4)
    chance, faults, passes = random.Random(1), [0], engine._worker.passes

    def fault(*_: Any) -> None:
        if chance.random() < 0.01 or (faults[0] == 0 and passes.steps > 5):
            faults[0] += 1
            raise ValueError("injected")

    engine.backbone.register_forward_pre_hook(fault)
    soak = Soak(engine, states, wanted)
    soak.run(requests)
    assert not soak.wrong
    assert sum(soak.ends.values()) == requests
    assert faults[0] > 0
    assert soak.ends["answered"] > 0.7 * requests
    engine._worker.scheduler.call(lambda: None)  # what the last pass ended is counted by now
    stats = engine.stats()
    assert stats["waiting"] == stats["rejected"] == 0
    ends = {end: stats[end] for end in ("answered", "failed", "cancelled", "expired")}
    assert sum(ends.values()) == stats["requests"] <= requests
    assert ends["answered"] >= soak.ends["answered"]  # a task may leave with its answer there
    assert ends["failed"] >= soak.ends["failed"] > 0
    cache = engine._worker.cache
    assert cache is not None
    cache.check_integrity()
    assert not cache._pinned
    assert not engine._worker.passes._held
    assert stats["cache"]["evictions"] > 0
    assert stats["cache"]["held_bytes"] <= needed // 4
    engine.clear_cache()
    stats = engine.stats()["cache"]
    assert (stats["tokens"], stats["snapshots"]) == (0, 0)
    engine.close()
    assert engine.stats()["cache"]["held_bytes"] == 0
