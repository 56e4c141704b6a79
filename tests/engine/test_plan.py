"""`Plan`: what a pass computes, what it costs, and what it leaves behind. No model runs here."""

from __future__ import annotations

import pytest
import torch

from readoff.engine.naive_cache import NaiveCache
from readoff.engine.plan import Line, Plan
from readoff.engine.prefix_cache import PrefixCache
from readoff.engine.radix_cache import RadixCache
from readoff.engine.storage import Storage
from tests import models

from .passes_rig import KINDS, LABELS, backbone, ids, line

Kind = models.Architecture


def new_cache(kind: Kind, tokens: int = 4000, states: int = 60) -> PrefixCache:
    storage = Storage(backbone(kind).config, torch.float32, torch.device("cpu"), 0)
    storage.budget = storage.size(tokens, states)
    return RadixCache(storage)


def planned(cache: PrefixCache, *lines: Line) -> Plan:
    plan = Plan(cache)
    costs = [(plan.cost(cache.root(), one), plan.add(cache.root(), one)) for one in lines]
    # A prompt that is there already, leaf and all, costs nothing after all.
    assert all(added in (cost, 0) for cost, added in costs)
    assert plan.tokens == sum(added for _, added in costs)
    return plan


def carry_out(plan: Plan) -> None:
    assert plan.close()
    plan.commit()
    plan.cache.check_integrity()


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> Kind:
    found: Kind = request.param
    return found


def test_the_batch_holds_what_is_not_cached(kind: Kind) -> None:
    cache = new_cache(kind)
    carry_out(planned(cache, line(ids(30), ids(20, 1))))
    asked = [line(ids(30), ids(20, 1), leaf=ids(5, n)) for n in (2, 3)]
    plan = planned(cache, *asked, line(ids(30), ids(9, 4), leaf=ids(4, 5)), asked[0])
    assert plan.tokens == 5 + 5 + 9 + 4
    assert plan.close()
    batch = plan.batch()
    assert len(batch.tokens) == plan.tokens
    assert batch.seg_length.tolist() == [9, 4, 5, 5]  # what is kept first, then what is read
    assert batch.positions[-5:].tolist() == [50, 51, 52, 53, 54]
    assert batch.rows.tolist() == [17, 22, 12, 17]  # the equal prompt reads the same row
    assert batch.label_ids.tolist() == [*LABELS] * 4
    # Ancestors side by side are one span: 30 and 20 cached ones, but not 30 and 9 new ones.
    assert batch.runs.chain_spans[:, 1].tolist() == [30, 30, 9, 50, 50]
    assert batch.parent_state.tolist() == [1, 3, 2, 2] if kind == "qwen3_5" else [0] * 4
    assert batch.state_out.tolist() == ([3, -1, -1, -1] if kind == "qwen3_5" else [-1] * 4)
    plan.commit()
    cache.check_integrity()
    assert cache.storage.tokens.used == 59


def test_a_plan_without_leaves_reads_one_row_for_nothing(kind: Kind) -> None:
    plan = planned(new_cache(kind), line(ids(10)))
    assert plan.close()
    assert len(plan.batch().rows) == 1
    assert plan.reads == []


def test_a_hybrid_computes_once_more_what_has_no_snapshot() -> None:
    cache = new_cache("qwen3_5")
    carry_out(planned(cache, line(ids(100))))
    branch = [line(ids(100)[:cut] + ids(10, cut), leaf=ids(3)) for cut in (60, 40, 80)]
    plan = planned(cache, *branch)
    assert plan.tokens == sum((13, 13, 13)) + 80
    carry_out(plan)
    assert planned(cache, branch[1]).tokens == 3
    assert cache.counters.saved_tokens == 0
    carry_out(planned(cache, line(ids(100)[:60] + ids(10, 7), leaf=ids(3))))
    assert cache.counters.saved_tokens == 60


@pytest.mark.parametrize("closed", [False, True])
def test_an_aborted_plan_leaves_everything_as_it_was(kind: Kind, closed: bool) -> None:
    cache = new_cache(kind)
    carry_out(planned(cache, line(ids(100))))
    before = (cache.storage.tokens.used, cache.storage.states.used, cache.counters.hits)
    plan = planned(
        cache, line(ids(100)[:50] + ids(10, 1), leaf=ids(3)), line(ids(100), leaf=ids(3))
    )
    assert not closed or plan.close()
    plan.abort()
    cache.check_integrity()
    assert not cache.pending
    assert not cache._pinned
    after = (cache.storage.tokens.used, cache.storage.states.used, cache.counters.hits)
    assert after == before


def test_room_that_is_not_there(kind: Kind) -> None:
    cache = new_cache(kind, 120, 3)
    carry_out(planned(cache, line(ids(50))))
    plan = planned(cache, line(ids(50), ids(400, 1), leaf=ids(3)))
    assert not plan.close()
    plan.abort()
    cache.check_integrity()
    assert not cache._pinned
    assert cache.match(cache.root(), [ids(50)])[0] == 50


def test_an_error_while_room_is_made_leaves_nothing_behind(
    kind: Kind, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = new_cache(kind)
    plan = planned(cache, line(ids(50), leaf=ids(3)))

    def fail(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr(cache, "make_room", fail)
    with pytest.raises(MemoryError):
        plan.close()
    plan.abort()
    cache.check_integrity()
    assert cache.storage.tokens.used == 0


@pytest.mark.parametrize("tokens", [64, 100, 128, 200, 500])
def test_parts_are_cut_on_the_grid_and_add_up(kind: Kind, tokens: int) -> None:
    cache = new_cache(kind)
    asked = line(ids(30), ids(400, 1), ids(70, 2), leaf=ids(3))
    total, node = 0, None
    while total < 500:
        plan = Plan(cache)
        end, computed = plan.add_part(cache.root(), asked, tokens)
        assert 0 < computed == plan.tokens <= max(tokens, 64)
        carry_out(plan)
        total += computed
        node = end
        assert end.end == total
        assert (total - 30) % 64 == 0 or total in (30, 430, 500) or (total - 430) % 64 == 0
    assert node is not None
    assert not node.cut
    assert planned(cache, asked).tokens == 3


def test_whole_pieces_where_cutting_is_forbidden(kind: Kind) -> None:
    storage = new_cache(kind).storage
    for cache in (RadixCache(storage, exact=True), NaiveCache(new_cache(kind).storage)):
        asked, ends = line(ids(30), ids(400, 1), ids(70, 2), leaf=ids(3)), []
        for _ in range(3):
            plan = Plan(cache)
            ends.append(plan.add_part(cache.root(), asked, 64, may_cut=False)[0].end)
            carry_out(plan)
        assert ends == [30, 430, 500]
