"""`Passes` at their limits: long prompts, small budgets, memory that runs out, steps that fail."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from readoff.engine.batch import Batch
from readoff.engine.errors import BudgetError, StepError
from readoff.engine.naive_cache import NaiveCache
from readoff.engine.radix_cache import RadixCache
from readoff.engine.storage import Storage
from tests import models

from .passes_rig import KINDS, Rig, cold, gap, ids, line

BOUND = 1e-5
Kind = models.Architecture


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> Kind:
    found: Kind = request.param
    return found


def test_a_long_state_is_spread_and_short_ones_pass_by(kind: Kind) -> None:
    rig = Rig(kind, step_tokens=256)
    asked = line(ids(2000), leaf=ids(5, 1))
    long, other = rig.job(asked), rig.job(line(ids(1500, 8), leaf=ids(5, 1)))
    short = [rig.job(line(ids(20, n), leaf=ids(5, n))) for n in range(2, 6)]
    outcomes = rig.step([long, other, *short])
    assert {job for job, _ in outcomes} == set(short[:4])
    found = rig.run(long, other)
    assert max(rig.sizes) <= 256
    assert gap(found[long][0], cold(kind, asked)) <= BOUND
    counters = rig.kept.counters
    assert (counters.hits, counters.saved_tokens) == (0, 0)
    assert rig.computed(asked) == 5  # and it stays, whole
    assert counters.saved_tokens == 2000
    if kind == "qwen3_5":
        assert rig.kept.storage.states.used == 6  # no snapshot of the cuts is left
    rig.check_clean()


@pytest.mark.parametrize("common", [17, 50, 55, 63, 70])
def test_a_long_state_goes_on_after_a_short_branch(kind: Kind, common: int) -> None:
    """It begins as a cached one does; and is cut there by others while it is on its way."""
    rig = Rig(kind, step_tokens=64)
    state = ids(400)
    rig.ask(line(state[:common] + ids(40, 3), leaf=ids(2)))
    asked = line(state, leaf=ids(5, 1))
    job = rig.job(asked)
    rig.step([job])
    for shared in (common + 9, 120):
        neighbour = line(state[:shared] + ids(3, 4), leaf=ids(2))
        assert gap(rig.ask(neighbour)[0], cold(kind, neighbour)) <= BOUND
    assert gap(rig.run(job)[job][0], cold(kind, asked)) <= BOUND
    assert len(rig.sizes) < 30
    rig.check_clean()


def test_pieces_are_never_cut_where_that_is_forbidden(kind: Kind) -> None:
    rig = Rig(kind, step_tokens=64, exact=True, make=lambda s: RadixCache(s, exact=True))
    parts = [ids(50, n) for n in range(1, 5)] + [ids(200, 5)]
    asked = line(*parts, leaf=ids(3))
    assert gap(rig.ask(asked)[0], cold(kind, asked)) <= BOUND
    assert {node.ids for node in rig.kept.nodes()} == set(parts)


def test_a_lost_snapshot_is_made_again_in_passes_of_the_right_size() -> None:
    """A hybrid keeps the tokens of a long state but lost its snapshots."""
    rig = Rig("qwen3_5", step_tokens=256)
    asked = line(ids(1000), leaf=ids(5, 1))
    rig.ask(asked)
    for node in rig.kept.nodes():
        rig.kept.drop_state(node)
    rig.sizes.clear()
    assert gap(rig.ask(asked)[0], cold("qwen3_5", asked)) <= BOUND
    assert max(rig.sizes) <= 256
    assert rig.computed(asked) == 5
    rig.check_clean()


@pytest.mark.parametrize("make", [RadixCache, NaiveCache])
def test_a_small_budget_drops_and_moves_but_never_lies(kind: Kind, make: Any) -> None:
    size = Storage(Rig(kind).backbone.config, torch.float32, torch.device("cpu"), 0).size(900, 12)
    rig = Rig(kind, size, make)
    asked = [line(ids(100 + 9 * n, n), leaf=ids(5, n)) for n in range(12)]
    for turn in range(30):
        one = asked[turn * 7 % 12]
        assert gap(rig.ask(one)[0], cold(kind, one)) <= BOUND
    assert rig.kept.counters.evictions > 0
    assert rig.kept.storage.nbytes <= size
    rig.check_clean()


def test_a_prompt_beyond_the_budget_is_refused_and_costs_nobody_anything(kind: Kind) -> None:
    size = Storage(Rig(kind).backbone.config, torch.float32, torch.device("cpu"), 0).size(600, 6)
    rig = Rig(kind, size, step_tokens=128)
    kept = line(ids(200), leaf=ids(5, 1))
    rig.ask(kept)
    job, neighbour = rig.job(line(ids(1500, 3), leaf=ids(3))), rig.job(kept)
    found = rig.run(job, neighbour)
    assert isinstance(found[job], BudgetError)
    assert "1503 tokens" in str(found[job])
    assert "MiB" in str(found[job])
    assert gap(found[neighbour][0], cold(kind, kept)) <= BOUND
    assert rig.kept.counters.evictions == 0
    assert rig.computed(kept) == 5
    rig.check_clean()


def test_many_short_parts_of_which_few_fit_at_once() -> None:
    """Each leaves a snapshot; those of a part that others go on from need not stay."""
    size = Storage(Rig("qwen3_5").backbone.config, torch.float32, torch.device("cpu"), 0)
    rig = Rig("qwen3_5", size.size(2000, 8))
    asked = line(*(ids(5, n) for n in range(40)), leaf=ids(4, 50))
    assert gap(rig.ask(asked)[0], cold("qwen3_5", asked)) <= BOUND
    few = line(*(ids(3, n) for n in range(100, 115)), leaf=ids(4, 51))  # less than the grid in all
    assert gap(rig.ask(few)[0], cold("qwen3_5", few)) <= BOUND
    rig.check_clean()


def test_what_is_too_large_is_told_of_the_longest_question(kind: Kind) -> None:
    size = Storage(Rig(kind).backbone.config, torch.float32, torch.device("cpu"), 0).size(600, 6)
    rig = Rig(kind, size, step_tokens=128)
    job = rig.job(line(ids(100), leaf=ids(3)), line(ids(100), leaf=ids(900, 2)))
    found = rig.run(job)
    assert isinstance(found[job], BudgetError)
    assert "A prompt of 1000 tokens" in str(found[job])
    assert "cache_bytes" in str(found[job])


def test_pools_that_are_settled_stay_where_they_are(kind: Kind) -> None:
    """As captured passes need it: short states and long ones, far beyond what is kept."""
    config = Rig(kind).backbone.config
    size = Storage(config, torch.float32, torch.device("cpu"), 0).size(3000, 9)
    rig = Rig(kind, size, step_tokens=512)
    rig.kept.storage.reserve(256)
    where = rig.kept.storage.pools.generation
    for n in range(60):
        length = (20, 40, 300, 800)[n % 4 if n < 40 else 0]
        asked = line(ids(length, n), leaf=ids(4, n))
        assert gap(rig.ask(asked)[0], cold(kind, asked)) <= BOUND
    assert rig.kept.counters.evictions > 0
    assert rig.kept.storage.pools.generation == where
    assert rig.kept.storage.nbytes <= size
    rig.check_clean()


def test_two_long_states_that_only_fit_one_after_the_other(kind: Kind) -> None:
    """Each holds what it has computed so far: neither may starve the other for ever."""
    config = Rig(kind).backbone.config
    size = Storage(config, torch.float32, torch.device("cpu"), 0).size(1200, 12)
    rig = Rig(kind, size, step_tokens=256)
    lines = [line(ids(1000, n), leaf=ids(5, n)) for n in (1, 2, 3)]
    jobs = [rig.job(one) for one in lines]
    found = rig.run(*jobs)
    for job, one in zip(jobs, lines, strict=True):
        assert gap(found[job][0], cold(kind, one)) <= BOUND
    rig.check_clean()


@pytest.mark.parametrize("budget", [0, 64 << 20])
def test_out_of_memory_halves_the_step(kind: Kind, budget: int) -> None:
    rig = Rig(kind, budget)

    def fault(batch: Batch) -> None:
        if len(batch.tokens) > 100:
            raise torch.OutOfMemoryError("CUDA out of memory")

    rig.fault = fault
    lines = [line(ids(40, n), leaf=ids(5, n)) for n in range(8)]
    jobs = [rig.job(one) for one in lines]
    found = rig.run(*jobs)
    for job, one in zip(jobs, lines, strict=True):
        assert gap(found[job][0], cold(kind, one)) <= BOUND
    # Jobs of a pass: 8 -> 4 -> 2, then 6 -> 3 -> 1, then 5 -> 2, then 3 -> 1, then 2.
    assert rig.sizes == [45 * jobs for jobs in (8, 4, 2, 6, 3, 1, 5, 2, 3, 1, 2)]
    assert (rig.passes.steps, rig.passes.retries) == (5, 6)
    too_long = rig.job(line(ids(20), leaf=ids(120, 1)))
    others = [rig.job(one) for one in lines[:2]]
    found = rig.run(too_long, *others)
    assert isinstance(found[too_long], BudgetError)
    assert "memory" in str(found[too_long])
    assert all(isinstance(found[job], list) for job in others)


def test_memory_for_the_activations_of_a_long_state_runs_out(kind: Kind) -> None:
    """With a cache, less of it a pass may do."""
    rig = Rig(kind)

    def fault(batch: Batch) -> None:
        if len(batch.tokens) > 100:
            raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried ...")

    rig.fault = fault
    asked = line(ids(700), leaf=ids(5, 1))
    assert gap(rig.ask(asked)[0], cold(kind, asked)) <= BOUND
    assert rig.passes.retries > 0


def test_memory_for_the_pools_runs_out(kind: Kind, monkeypatch: pytest.MonkeyPatch) -> None:
    """The pools can't grow: what is cached makes way; when memory is back they grow again."""
    rig = Rig(kind)
    first = line(ids(500), leaf=ids(5, 1))
    rig.ask(first)
    room = rig.kept.storage.tokens.capacity
    pools = type(rig.kept.storage.pools)

    def fail(*args: Any) -> None:
        raise torch.OutOfMemoryError

    with monkeypatch.context() as patch:
        patch.setattr(pools, "grow", fail)
        for seed in range(2, 8):
            asked = line(ids(450, seed), leaf=ids(5, 1))
            assert gap(rig.ask(asked)[0], cold(kind, asked)) <= BOUND
        assert rig.kept.storage.tokens.capacity == room
        with pytest.raises(BudgetError):
            rig.ask(line(ids(5 * room, 9), leaf=ids(5, 1)))
    rig.ask(line(ids(room + 1, 9), leaf=ids(5, 1)))
    assert rig.kept.storage.tokens.capacity > room
    rig.check_clean()


def test_memory_runs_out_half_way_through_a_move(
    kind: Kind, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some layers were moved: everything cached is given up, and the request still answered."""
    config = Rig(kind).backbone.config
    size = Storage(config, torch.float32, torch.device("cpu"), 0).size(1300, 20)
    rig = Rig(kind, size)
    for seed in range(6):
        rig.ask(line(ids(160 + 8 * seed, seed), leaf=ids(5, 1)))
    pools = type(rig.kept.storage.pools)
    plain, failures = pools.rearrange, [1]

    def fail(self: Any, kv: torch.Tensor, *rest: Any) -> None:
        if failures and not torch.equal(kv, torch.arange(len(kv))):
            failures.pop()
            for held in self._kv.values():
                held.k.fill_(torch.nan)
            raise torch.OutOfMemoryError
        plain(self, kv, *rest)

    monkeypatch.setattr(pools, "rearrange", fail)
    for seed in range(50, 80):
        asked = line(ids(100 + 13 * seed % 300, seed), leaf=ids(5, 1))
        if failures:
            assert gap(rig.ask(asked)[0], cold(kind, asked)) <= BOUND
    assert not failures
    assert rig.passes.retries == 1
    for seed in range(6):
        asked = line(ids(160 + 8 * seed, seed), leaf=ids(5, 1))
        assert gap(rig.ask(asked)[0], cold(kind, asked)) <= BOUND
    rig.check_clean()


@pytest.mark.parametrize("budget", [0, 64 << 20])
def test_a_failed_step_fails_its_own_requests(kind: Kind, budget: int) -> None:
    rig = Rig(kind, budget, step_tokens=128)
    failures = [1]

    def fault(batch: Batch) -> None:
        if failures:
            failures.pop()
            raise ValueError("injected")

    rig.fault = fault
    lines = [line(ids(90, n), leaf=ids(5, n)) for n in range(3)]
    jobs = [rig.job(one) for one in lines]
    found = rig.run(*jobs)
    assert isinstance(found[jobs[0]], StepError)
    assert isinstance(found[jobs[0]].__cause__, ValueError)
    for job, one in zip(jobs[1:], lines[1:], strict=True):
        assert gap(found[job][0], cold(kind, one)) <= BOUND
    assert rig.passes.steps == 2
    assert gap(rig.ask(lines[0])[0], cold(kind, lines[0])) <= BOUND


def test_a_cancelled_job_lets_go_of_its_parts(kind: Kind) -> None:
    rig = Rig(kind, step_tokens=128)
    job = rig.job(line(ids(900), leaf=ids(3, 1)))
    assert rig.step([job]) == []
    assert any(node.pins for node in rig.kept.nodes())
    job.ticket.cancel()
    assert rig.step([job]) == []
    rig.passes.let_go(job)
    assert rig.passes.steps == 1  # nothing ran for it
    rig.check_clean()
