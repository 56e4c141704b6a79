"""`Passes`: warm equals cold to the token, for every pitfall of caches and batches; budgets."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import pytest
import torch

from readoff.engine.batch import Batch
from readoff.engine.errors import BudgetError, StepError
from readoff.engine.naive_cache import NaiveCache
from readoff.engine.prefix_cache import Ids
from readoff.engine.radix_cache import RadixCache
from readoff.engine.storage import Storage
from tests import models

from .passes_rig import KINDS, Rig, cold, gap, ids, line

BOUND = 1e-5
LENGTHS = (1, 63, 64, 65, 127, 128, 527, 528, 529)
Kind = models.Architecture


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> Kind:
    found: Kind = request.param
    return found


@pytest.mark.parametrize("length", LENGTHS)
def test_states_of_every_length_are_reused_whole(kind: Kind, length: int) -> None:
    """Pitfall 1: the second question computes its own tokens only, and equals a cold run."""
    rig = Rig(kind)
    state, first, second = ids(length), line(ids(length), leaf=ids(9, 1)), ids(7, 2)
    asked = line(state, leaf=second)
    assert rig.computed(first) == length + 9
    before = rig.passes.computed
    [found] = rig.ask(asked)
    assert rig.passes.computed - before == 7
    assert gap(found, cold(kind, asked)) <= BOUND
    counters = rig.kept.counters
    assert (counters.hits, counters.misses, counters.saved_tokens) == (1, 1, length)
    assert rig.kept.storage.tokens.used == length


@pytest.mark.parametrize("length", [1, 2, 3, 4, 5, 63, 64, 65])
def test_a_suffix_of_any_length_remembers_the_prefix(kind: Kind, length: int) -> None:
    """Pitfall 2: the recurrent state was dropped for suffixes of more than one token."""
    rig = Rig(kind)
    rig.ask(line(ids(20)))
    asked = line(ids(20), leaf=ids(length, 5))
    before = rig.passes.computed
    [found] = rig.ask(asked)
    assert rig.passes.computed - before == length
    assert gap(found, cold(kind, asked)) <= BOUND
    assert gap(found, cold(kind, line(ids(20, 9), leaf=ids(length, 5)))) > 1e-3  # it matters


def test_a_row_is_the_same_alone_beside_a_longer_one_and_twice(kind: Kind) -> None:
    """Pitfall 3: padding leaked."""
    short, long = line(ids(5), leaf=ids(3, 1)), line(ids(200, 2), leaf=ids(90, 3))
    wanted = cold(kind, short)
    for lines in ([short], [short, short], [short, long], [long, short, short]):
        for found, asked in zip(Rig(kind).ask(*lines), lines, strict=True):
            assert gap(found, wanted if asked is short else cold(kind, long)) <= BOUND


@pytest.mark.parametrize("length", [1, 2, 3, 4, 5])
def test_packed_rows_do_not_bleed(kind: Kind, length: int) -> None:
    """Pitfall 4: a loud first question of 1..5 tokens, a neutral second."""
    neutral = line(ids(30), leaf=ids(6, 4))
    for seed in (5, 6):
        loud = line(ids(30), leaf=ids(length, seed))
        for rig in (Rig(kind), warmed(kind, line(ids(30)))):
            found = rig.ask(loud, neutral)
            assert gap(found[1], cold(kind, neutral)) <= BOUND
            assert gap(found[0], cold(kind, loud)) <= BOUND


def test_questions_are_apart(kind: Kind) -> None:
    """Pitfall 5: what question 1 says, or that it is there, doesn't move question 2."""
    second = line(ids(30), leaf=ids(6, 4))
    wanted = cold(kind, second)
    rig = Rig(kind)
    for lines in ([line(ids(30), leaf=ids(11, 7)), second], [second], [second, line(ids(30))]):
        assert gap(rig.ask(*lines)[lines.index(second)], wanted) <= BOUND


def test_prompts_that_diverge_inside_a_cached_state(kind: Kind) -> None:
    """Pitfall 6: three prompts share 40 tokens; a fourth diverges in the middle of one."""
    rig = Rig(kind)
    shared = ids(40)
    three = [line(shared + ids(30, seed), leaf=ids(5, seed)) for seed in (1, 2, 3)]
    assert rig.computed(*three) == 40 + 3 * 35
    fourth = [line(shared + ids(30, 2)[:17] + ids(13, n), leaf=ids(5, n)) for n in (8, 9)]
    before = rig.passes.computed
    [found] = rig.ask(fourth[0])
    # A hybrid has a snapshot after the 40 shared tokens, and none 17 tokens later.
    assert rig.passes.computed - before == 18 + 17 * (kind == "qwen3_5")
    assert gap(found, cold(kind, fourth[0])) <= BOUND
    before = rig.passes.computed
    [found] = rig.ask(fourth[1])
    assert rig.passes.computed - before == 18  # now there is one where the two part
    assert gap(found, cold(kind, fourth[1])) <= BOUND
    for asked, again in zip(three, rig.ask(*three), strict=True):
        assert gap(again, cold(kind, asked)) <= BOUND
    rig.check_clean()


def test_a_first_then_a_second_then_the_first_question(kind: Kind) -> None:
    """Pitfall 16: nothing cached is changed by those who use it."""
    rig = Rig(kind)
    one, two = line(ids(50), leaf=ids(8, 1)), line(ids(50), leaf=ids(70, 2))
    first, second, third = rig.ask(one), rig.ask(two), rig.ask(one)
    assert gap(first[0], third[0]) <= BOUND
    assert gap(second[0], cold(kind, two)) <= BOUND


class Colliding(tuple[int, ...]):
    """A key that only equality tells from others."""

    __slots__ = ()

    def __hash__(self) -> int:
        return 7


def test_a_constant_hash_changes_nothing(kind: Kind, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pitfall 16: ids are compared on a hit."""
    plain = RadixCache._key

    def key(self: RadixCache, found: Ids) -> Hashable:
        kept = plain(self, found)
        assert isinstance(kept, tuple)
        return Colliding(kept)

    monkeypatch.setattr(RadixCache, "_key", key)
    rig = Rig(kind)
    asked = [line(ids(20 + n, n), leaf=ids(4, n)) for n in range(8)]
    for _ in range(2):
        for found, one in zip(rig.ask(*asked), asked, strict=True):
            assert gap(found, cold(kind, one)) <= BOUND
    assert rig.kept.counters.hits == 8


def test_pieces_that_begin_alike_are_told_apart(kind: Kind) -> None:
    """Equal in all but the last id of the piece, with equal keys in the tree."""
    rig = Rig(kind)
    for last in (1, 2, 3):
        asked = line((*ids(63), last), leaf=ids(4, 1))
        assert gap(rig.ask(asked)[0], cold(kind, asked)) <= BOUND


def test_the_identical_request_twice(kind: Kind) -> None:
    """Pitfall 17: a full hit still has its logits; and twice in one pass."""
    rig = Rig(kind)
    asked = line(ids(33), leaf=ids(6, 1))
    once = rig.ask(asked)
    assert rig.computed(asked) == 6
    assert gap(rig.ask(asked)[0], once[0]) <= BOUND
    job, same = rig.job(asked), rig.job(asked)
    found = rig.run(job, same)
    assert found[job] == found[same]
    assert (job.computed, same.computed) == (6, 0)


def test_near_ties_stand_in_any_company(kind: Kind) -> None:
    """Pitfall 19: alone, with 3 and 4 copies, and beside 31 strangers, cold and warm."""
    candidates = [line(ids(24), leaf=ids(6, seed)) for seed in range(40)]

    def distance(one: Any) -> float:
        best = sorted(cold(kind, one))[-2:]
        return best[1] - best[0]

    tie = min(candidates, key=distance)
    strangers = [line(ids(10 + n, 100 + n), leaf=ids(3 + n % 5, n)) for n in range(31)]
    wanted = cold(kind, tie)
    for rig in (Rig(kind), warmed(kind, line(ids(24)))):
        for company in ([], [tie] * 3, [tie] * 4, strangers):
            lines = [*company, tie]
            for found, one in zip(rig.ask(*lines), lines, strict=True):
                assert one is not tie or gap(found, wanted) <= BOUND
            jobs = [rig.job(one) for one in lines]
            assert gap(rig.run(*jobs)[jobs[-1]][0], wanted) <= BOUND


def test_a_growing_state_reuses_its_own_past(kind: Kind) -> None:
    rig = Rig(kind)
    parts = [ids(10 + n, n) for n in range(8)]
    for n in range(1, 9):
        asked = line(*parts[:n], leaf=ids(5, n))
        before = rig.passes.computed
        [found] = rig.ask(asked)
        assert rig.passes.computed - before == len(parts[n - 1]) + 5
        assert gap(found, cold(kind, asked)) <= BOUND


@pytest.mark.parametrize("other", [(ids(70),), (ids(25), ids(70)[25:50], ids(70)[50:])])
def test_pieces_may_be_divided_in_another_way(kind: Kind, other: tuple[Ids, ...]) -> None:
    """The same tokens as one piece and as several: shared, counted exactly, and right."""
    rig = Rig(kind)
    mine = (ids(70)[:40], ids(70)[40:])
    rig.ask(line(*mine))
    asked = line(*other, leaf=ids(3, 1))
    cost = rig.computed(asked)
    assert cost == rig.sizes[-1]
    assert gap(rig.ask(asked)[0], cold(kind, asked)) <= BOUND


def test_a_hybrid_cut_twice_in_one_pass_counts_what_it_computes() -> None:
    """Two prompts branch off one cached piece at different tokens: a segment is counted once."""
    rig = Rig("qwen3_5")
    rig.ask(line(ids(300)))
    for cuts in ((200, 120), (60, 250)):
        lines = [line(ids(300)[:cut] + ids(20, cut), leaf=ids(3, cut)) for cut in cuts]
        before = rig.passes.computed
        for found, asked in zip(rig.ask(*lines), lines, strict=True):
            assert gap(found, cold("qwen3_5", asked)) <= BOUND
        assert rig.passes.computed - before == rig.sizes[-1]


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


def warmed(kind: Kind, *lines: Any) -> Rig:
    rig = Rig(kind)
    rig.ask(*lines)
    return rig
