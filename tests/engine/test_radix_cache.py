"""`RadixCache`: what is shared, what is dropped and in which order. No model runs here."""

from __future__ import annotations

import pytest
import torch

from readoff.engine.prefix_cache import Ids, Node
from readoff.engine.radix_cache import RadixCache, _common
from readoff.engine.storage import Storage
from tests import models

from .passes_rig import backbone, ids


def cache(
    kind: models.Architecture = "qwen2", tokens: int = 1000, states: int = 50, **options: object
) -> RadixCache:
    config = backbone(kind).config
    storage = Storage(config, torch.float32, torch.device("cpu"), 0)
    storage.budget = storage.size(tokens, states)
    return RadixCache(storage, **options)  # type: ignore[arg-type]


def put(made: RadixCache, *pieces: Ids) -> Node | None:
    """Pretend that a pass computed these pieces; None where there was no room."""
    node = made.root()
    for piece in pieces:
        node = made.extend(node, piece)
    new = list(made.pending)
    made.pin(node)
    room = made.make_room([len(n.ids) for n in new], len(new) * made.storage.hybrid)
    if room is None:
        made.discard_pending()
        made.unpin(node)
        made.check_integrity()
        return None
    states = room.states or (-1,) * len(new)
    by_depth = sorted(zip(new, room.spans, states, strict=True), key=lambda one: one[0].first)
    for one, start, state in by_depth:
        made.commit(one, start, state)
    made.unpin(node)
    made.check_integrity()
    return node


def found(made: RadixCache, *pieces: Ids) -> int:
    return made.match(made.root(), pieces)[0]


def test_equal_beginnings_are_held_once() -> None:
    made = cache()
    put(made, ids(60))
    put(made, ids(40) + ids(20, 1))
    assert made.storage.tokens.used == 80
    assert sorted(len(n.ids) for n in made.nodes()) == [20, 20, 40]
    assert found(made, ids(60)) == 60
    assert found(made, ids(57)) == 57
    assert found(made, ids(60), ids(5, 2)) == 60
    assert found(made, ids(50)) == 40  # 10 tokens of a longer run aren't worth a cut
    assert found(made, ids(60, 3)) == 0


@pytest.mark.parametrize("shared", [1, 15, 16, 17])
def test_runs_shorter_than_sixteen_are_not_worth_a_segment(shared: int) -> None:
    made = cache()
    put(made, ids(50))
    other = (*ids(50)[:shared], ids(50)[shared] ^ 1, *ids(30, 1))
    assert found(made, other) == (shared if shared >= 16 else 0)
    put(made, other)
    assert made.storage.tokens.used == 50 + len(other) - (shared if shared >= 16 else 0)
    assert found(made, other) == len(other)
    assert found(made, ids(50)) == 50


def test_short_pieces_are_found_by_longer_ones() -> None:
    made = cache()
    put(made, ids(9))
    assert found(made, ids(50)) == 9
    put(made, ids(50))
    assert made.storage.tokens.used == 50
    assert found(made, ids(9), ids(50)[9:]) == 50
    assert found(made, ids(9)[:5]) == 0


@pytest.mark.parametrize("first", [5, 20, 45])
def test_match_and_extend_agree_on_pieces_divided_in_another_way(first: int) -> None:
    for made in (cache(), cache(exact=True)):
        put(made, ids(20), ids(50)[20:])
        pieces = [ids(50)[:first], ids(50)[first:]]
        matched = found(made, *pieces)
        node = made.root()
        for piece in pieces:
            node = made.extend(node, piece)
        assert sum(len(n.ids) for n in made.pending) == 50 - matched
        made.discard_pending()
        made.check_integrity()


def test_exact_caches_share_whole_pieces_only() -> None:
    made = cache(exact=True)
    put(made, ids(40), ids(30, 1))
    assert found(made, ids(40), ids(30, 1)) == 70
    assert found(made, ids(40), ids(30, 1)[:20]) == 40
    assert found(made, ids(40)[:39]) == 0


def test_hybrids_keep_snapshots_at_a_spacing() -> None:
    made = cache("qwen3_5", spacing=64)
    put(made, ids(200))
    assert sorted(n.first for n in made.nodes()) == [0, 64, 128, 192]
    assert made.storage.states.used == 4
    dense = cache(spacing=64)
    put(dense, ids(200))
    assert len(list(dense.nodes())) == 1


def test_roots_share_nothing() -> None:
    made = cache()
    put(made, ids(40))
    assert made.match(made.root("other"), [ids(40)])[0] == 0
    assert made.root("other") is made.root("other")


def test_the_least_recently_used_goes_first_among_equals() -> None:
    made = cache(tokens=300)
    for seed in (1, 2, 3):
        put(made, ids(100, seed))
    put(made, ids(100, 1))  # used again
    put(made, ids(100, 4))
    assert [found(made, ids(100, seed)) for seed in (1, 2, 3, 4)] == [100, 0, 100, 100]
    assert made.counters.evictions == 1


def test_what_saves_more_for_its_bytes_stays() -> None:
    """Attention makes late tokens dearer than early ones."""
    made = cache(tokens=300, flops=lambda first, length: length * (1.0 + first + length))
    put(made, ids(200, 1))
    put(made, ids(50, 2))
    put(made, ids(50, 3))
    put(made, ids(50, 4))
    assert [found(made, ids(50, seed)) for seed in (2, 3, 4)] == [0, 50, 50]
    assert found(made, ids(200, 1)) == 200


def test_nothing_stays_for_ever_because_it_was_dear_once() -> None:
    made = cache(tokens=300, flops=lambda first, length: length * (1.0 + first + length))
    put(made, ids(200, 1))
    for turn in range(60):
        put(made, ids(60, 2 + turn % 5))
    assert found(made, ids(200, 1)) == 0


def test_children_go_before_their_parents_and_pins_hold_a_path() -> None:
    made = cache(tokens=300)
    below = put(made, ids(100, 1), ids(50, 2))
    assert below is not None
    made.pin(below)
    for seed in range(3, 9):
        assert put(made, ids(120, seed)) is not None
    assert found(made, ids(100, 1), ids(50, 2)) == 150
    assert put(made, ids(200, 9)) is None
    evictions = made.counters.evictions
    assert put(made, ids(160, 9)) is None  # and nothing is dropped in vain
    assert made.counters.evictions == evictions
    made.unpin(below)
    assert put(made, ids(290, 9)) is not None
    assert found(made, ids(100, 1)) == 0


def test_a_hybrid_drops_snapshots_of_nodes_with_children_too() -> None:
    made = cache("qwen3_5", tokens=190, states=5)
    upper = put(made, ids(100))
    put(made, ids(100), ids(50, 1))
    for seed in (2, 3):
        put(made, ids(20, seed))
    assert upper is not None
    for seed in range(4, 20):
        lower = put(made, ids(100), ids(50, 1))
        assert lower is not None
        put(made, ids(20, seed))
        if upper.state < 0:
            break
    assert (upper.state, upper.ready) == (-1, True)  # its tokens stay: others stand on them
    assert found(made, ids(100), ids(50, 1)) == 150


def test_a_node_that_a_failed_pass_hung_things_on_can_still_be_dropped() -> None:
    made = cache(tokens=200)
    base = put(made, ids(100))
    assert base is not None
    made.pin(base)
    made.extend(base, ids(30, 1))
    assert made.make_room([500], 0) is None
    made.discard_pending()
    made.unpin(base)
    assert put(made, ids(190, 2)) is not None


def test_forgetting_everything_leaves_pins_harmless() -> None:
    made = cache("qwen3_5")
    node = put(made, ids(100), ids(10, 1))
    assert node is not None
    made.pin(node)
    made.forget()
    made.check_integrity()
    assert (found(made, ids(100)), made.nbytes) == (0, 0)
    made.unpin(node)
    assert put(made, ids(100)) is not None
    made.clear()
    assert made.storage.tokens.used == 0


def test_many_uses_do_not_fill_the_heap() -> None:
    made = cache()
    for turn in range(5000):
        put(made, ids(10, turn % 3))
    assert len(made._heap) < 2000


@pytest.mark.parametrize("length", [1, 2, 3, 64, 65, 100])
def test_common_beginnings(length: int) -> None:
    one = ids(length)
    for at in {0, length // 2, length - 1}:
        other = (*one[:at], one[at] ^ 1, *one[at + 1 :])
        assert _common(one, other) == at
        assert _common(one[:at], one) == _common(one, one[:at]) == at
    assert _common(one, (*one,)) == length
