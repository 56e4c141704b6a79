"""The engine with its cache: reuse, counters, many callers. Passes themselves: `test_passes.py`."""

from __future__ import annotations

import asyncio
import gc
import os
import subprocess
import sys
import threading
import weakref
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch

from readoff.engine.answers import Decision, NoulAnswer
from readoff.engine.engine import Engine
from readoff.engine.errors import ReadoffError
from readoff.kernels.dispatch import use
from tests import models
from tests.adapters import save_adapter

from .models_on_disk import ANGER, ASKED, REFUND, STATE, TEAM, save_decider
from .passes_rig import KINDS

BOUND = 1e-5


@pytest.fixture(scope="module", params=KINDS)
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp(str(request.param))
    save_decider(path, request.param, layers=4 if request.param == "qwen3_5" else 2)
    return path


@pytest.fixture(scope="module")
def cold(folder: Path) -> Engine:
    return Engine.from_pretrained(folder, dtype="fp32", cache_bytes=0)


@pytest.fixture
def engine(folder: Path) -> Iterator[Engine]:
    with Engine.from_pretrained(folder, dtype="fp32", cache_bytes=32 << 20) as made:
        yield made
        cache = made._worker.cache
        assert cache is not None
        cache.check_integrity()
        made.clear_cache()
        stats = made.stats()
        assert (stats["cache"]["tokens"], stats["cache"]["snapshots"]) == (0, 0)
        ends = ("answered", "failed", "cancelled", "expired", "rejected", "waiting")
        assert stats["requests"] == sum(stats[end] for end in ends)


def numbers(decision: Decision) -> list[float]:
    """All probabilities of a decision, in order."""
    found: list[float] = []
    for answer in decision.values():
        found += [answer.noul] if isinstance(answer, NoulAnswer) else answer.probabilities.values()
    return found


def near(one: Decision, other: Decision) -> bool:
    pairs = zip(numbers(one), numbers(other), strict=True)
    return max(abs(a - b) for a, b in pairs) <= BOUND


def shared_and_own(engine: Engine, state: Any, asked: Any) -> tuple[int, int]:
    prompts = engine.renderer.render(state, asked)
    shared = sum(len(piece.ids) for piece in prompts[0].pieces[:-1])
    return shared, sum(len(prompt.pieces[-1].ids) for prompt in prompts)


def test_a_second_call_computes_its_questions_only(engine: Engine, cold: Engine) -> None:
    """Pitfall 16: S with Q1, Q2, Q1 again."""
    one, two = {"team": TEAM}, {"refund": REFUND}
    shared, own = shared_and_own(engine, STATE, one)
    first, second, third = (engine.decide(STATE, asked) for asked in (one, two, one))
    assert (first.usage.computed_tokens, first.usage.cached_tokens) == (shared + own, 0)
    assert (third.usage.computed_tokens, third.usage.cached_tokens) == (own, shared)
    assert second.usage.cached_tokens == shared
    assert near(first, third)
    assert near(first, cold.decide(STATE, one))
    assert near(second, cold.decide(STATE, two))
    stats = engine.stats()
    assert (stats["cache"]["hits"], stats["cache"]["misses"]) == (2, 1)
    assert stats["cache"]["saved_tokens"] == 2 * shared
    assert stats["computed_tokens"] == sum(d.usage.computed_tokens for d in (first, second, third))
    assert (stats["steps"], stats["answered"], stats["retries"]) == (3, 3, 0)


def test_the_identical_request_twice(engine: Engine) -> None:
    """Pitfall 17."""
    first, second = engine.decide(STATE, ASKED), engine.decide(STATE, ASKED)
    assert near(first, second)
    assert second.usage.input_tokens == first.usage.input_tokens


def test_without_a_cache_nothing_is_kept(cold: Engine) -> None:
    once, again = cold.decide(STATE, ASKED), cold.decide(STATE, ASKED)
    assert once.usage == again.usage
    assert once.usage.cached_tokens == 0
    assert "cache" not in cold.stats()
    for call in (lambda: cold.prefill(STATE), lambda: cold.save_prefixes("x")):
        with pytest.raises(ReadoffError, match="cache_bytes=0"):
            call()
    cold.clear_cache()


def test_two_adapters_on_one_state(folder: Path, tmp_path: Path) -> None:
    """Pitfall 16: each engine has a cache of its own."""
    architecture: models.Architecture = "qwen3_5" if "qwen3_5" in folder.name else "qwen2"
    layers = 4 if architecture == "qwen3_5" else 2
    base = models.tiny_model(architecture, layers=layers, max_position_embeddings=2048)
    engines = [Engine.from_pretrained(folder, dtype="fp32")]
    for seed in (1, 2):
        adapter = tmp_path / str(seed)
        save_adapter(adapter, base, seed=seed, target_modules="all-linear")
        engines.append(Engine.from_pretrained(folder, adapter, dtype="fp32"))
    answers = [[e.decide(STATE, ASKED) for e in engines] for _ in range(2)]
    for first, second in zip(*answers, strict=True):
        assert near(first, second)
        assert second.usage.cached_tokens > 0
    assert not near(answers[0][0], answers[0][1])
    assert not near(answers[0][1], answers[0][2])


def test_prefixes_made_by_other_kernels_are_kept_apart(engine: Engine) -> None:
    engine.decide(STATE, ASKED)
    with use("reference", "tree_attention"):
        assert engine.decide(STATE, ASKED).usage.cached_tokens == 0
        assert engine.decide(STATE, ASKED).usage.cached_tokens > 0


def test_prefill_warms_a_state(engine: Engine) -> None:
    shared, own = shared_and_own(engine, STATE, ASKED)
    usage = engine.prefill(STATE)
    assert (usage.input_tokens, usage.computed_tokens, usage.cached_tokens) == (shared, shared, 0)
    assert engine.prefill(STATE).computed_tokens == 0
    decision = engine.decide(STATE, ASKED)
    assert decision.usage.computed_tokens == own
    assert engine.stats()["steps"] == 2  # a pass with nothing to compute isn't one


def test_a_trajectory_that_appends_reuses_its_past(engine: Engine, cold: Engine) -> None:
    parts: list[Any] = []
    for turn in range(6):
        parts.append({"turn": turn, "said": "word " * turn})
        before = shared_and_own(engine, parts[:-1], {"r": REFUND})[0] if turn else 0
        shared, own = shared_and_own(engine, parts, {"r": REFUND})
        decision = engine.decide(parts, {"r": REFUND})
        assert decision.usage.computed_tokens == shared - before + own
        assert near(decision, cold.decide(parts, {"r": REFUND}))


@pytest.mark.parametrize("callers", [1, 2, 3, 8, 16])
def test_concurrent_callers_with_their_own_codewords(
    engine: Engine, cold: Engine, callers: int
) -> None:
    """Pitfall 20: 1..16 at once, each state its own; threads and tasks."""
    states = [f"The codeword is {chr(65 + n) * 3}{n}." for n in range(callers)]
    wanted = [cold.decide(state, ASKED) for state in states]
    barrier = threading.Barrier(callers)

    def ask(state: str) -> Decision:
        barrier.wait(30)
        return engine.decide(state, ASKED)

    async def all_at_once() -> list[Decision]:
        return await asyncio.gather(*(engine.adecide(state, ASKED) for state in states))

    with ThreadPoolExecutor(callers) as executor:
        found = [list(executor.map(ask, states)) for _ in range(2)]
    found.append(asyncio.run(all_at_once()))
    for decisions in found:
        assert all(near(a, b) for a, b in zip(decisions, wanted, strict=True))
    assert callers == 1 or len({tuple(numbers(decision)) for decision in wanted}) == callers


def test_every_way_of_asking_gives_the_same(engine: Engine, cold: Engine) -> None:
    wanted = cold.decide(STATE, ASKED)
    future = engine.submit(STATE, ASKED)
    assert near(future.result(30), wanted)
    assert near(asyncio.run(engine.adecide(STATE, ASKED)), wanted)
    assert near(engine.decide_many([(STATE, ASKED)] * 3)[2], wanted)


def test_legal_mass_is_warm_too(engine: Engine, cold: Engine) -> None:
    engine.decide(STATE, {"team": TEAM})
    found = engine.decide(STATE, {"anger": ANGER}, legal_mass=True)
    wanted = cold.decide(STATE, {"anger": ANGER}, legal_mass=True)
    assert found.usage.cached_tokens > 0
    assert found["anger"].legal_mass == pytest.approx(wanted["anger"].legal_mass, abs=BOUND)


def test_warmup_freezes_what_is_there(engine: Engine) -> None:
    before = gc.get_freeze_count()
    try:
        engine.warmup()
        assert gc.get_freeze_count() > before
    finally:
        gc.unfreeze()


def test_an_engine_that_nobody_holds_ends_its_thread(folder: Path) -> None:
    engine = Engine.from_pretrained(folder, dtype="fp32")
    engine.decide(STATE, ASKED)
    thread = engine._worker.scheduler._thread
    gone = weakref.ref(engine)
    assert thread is not None
    del engine
    gc.collect()
    thread.join(10)
    assert gone() is None
    assert not thread.is_alive()


PEAK = """
import sys, threading, torch
from readoff.engine.backbones.decoder import Backbone
from readoff.engine.engine import Engine
from readoff.engine.questions import Noul

def resident():
    with open("/proc/self/status") as status:
        [line] = [line for line in status if line.startswith("RssAnon")]
    return int(line.split()[1]) / 1024

engine = Engine.from_pretrained(sys.argv[1], dtype="fp32", threads=1, cache_bytes=256 << 20)
engine.decide("x", {"q": Noul()})
before = peak = resident()
done = threading.Event()

def watch():
    global peak
    while not done.wait(0.002):
        peak = max(peak, resident())

watcher = threading.Thread(target=watch)
watcher.start()
usage = engine.decide("x" * 8192, {"q": Noul()}).usage
done.set()
watcher.join()
assert usage.computed_tokens > 8192
print(peak - before, engine.stats()["cache"]["held_bytes"] / 2**20)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("architecture", KINDS)
def test_an_8k_state_needs_no_memory_by_length_times_vocabulary(
    architecture: models.Architecture, tmp_path: Path
) -> None:
    """Pitfall 18. Logits of all tokens would take 512 MiB, one head's score matrix 256 MiB.
    Live at once are two blocks of scores (16 MiB each) and, while the pools grow, a layer twice.
    Large blocks go back to the system at once here: what is seen is live, not kept by a heap."""
    layers = 4 if architecture == "qwen3_5" else 2
    save_decider(tmp_path, architecture, layers=layers, vocab=16384, max_position_embeddings=16384)
    command = [sys.executable, "-c", PEAK, str(tmp_path)]
    env = {**os.environ, "MALLOC_MMAP_THRESHOLD_": str(2**18)}
    ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300, env=env)
    assert ran.returncode == 0, ran.stderr
    grown, pools = map(float, ran.stdout.split())
    assert grown <= 2 * pools + 48


def tensors() -> int:
    gc.collect()
    return sum(issubclass(type(found), torch.Tensor) for found in gc.get_objects())


def test_a_tensor_of_the_pools_never_leaves(engine: Engine) -> None:
    """Answers are plain numbers: nothing keeps a pass's tensors alive."""
    engine.decide(STATE, ASKED)
    before = tensors()
    kept = [engine.decide(STATE, ASKED) for _ in range(5)]
    assert tensors() == before
    assert len(kept) == 5
