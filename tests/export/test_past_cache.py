"""The cache of pasts: found by ids, bounded, the least recently used dropped first."""

from __future__ import annotations

import random

import numpy as np
import pytest

from readoff.engine.line import Ids
from readoff.export.past import Past, joined
from readoff.export.past_cache import SHORTEST, PastCache
from readoff.export.way import GRID, Way

EMPTY = Past(None, (), {"past.0.key": np.zeros((1, 0, 1, 1), np.float32)})
BYTES = 4
"""Of a token here."""


def after(base: Past, ids: Ids) -> Past:
    """A past whose keys are the ids themselves."""
    return Past(base, ids, {"past.0.key": np.array(ids, np.float32).reshape(1, -1, 1, 1)})


def kept(cache: PastCache, *pieces: Ids) -> Past:
    """What is cached of `pieces`, and all the rest computed and put."""
    past, count = cache.find(pieces)
    for number in range(count, len(pieces)):
        past = after(past, pieces[number])
        cache.put(pieces[: number + 1], past)
    cache.check()
    return past


def tokens(past: Past) -> list[int]:
    return past.arrays()["past.0.key"].ravel().astype(int).tolist()


def piece(first: int, size: int = 20) -> Ids:
    return tuple(range(first, first + size))


A, B, C, D = piece(0), piece(100), piece(200), piece(300)


def test_the_longest_beginning_is_found() -> None:
    cache = PastCache(EMPTY, 10_000)
    assert cache.find([A]) == (EMPTY, 0)
    whole = kept(cache, A, B, C)
    assert tokens(whole) == [*A, *B, *C]
    assert whole.length == 60
    assert cache.find([A, B, C]) == (whole, 3)
    assert cache.find([A, B, D]) == (whole.base, 2)
    assert cache.find([B, A]) == (EMPTY, 0)
    assert cache.find([A, B, C, D]) == (whole, 3)
    assert (len(cache), cache.tokens, cache.used) == (3, 60, 60 * BYTES)


def test_equal_ids_are_needed_not_equal_pieces() -> None:
    cache = PastCache(EMPTY, 10_000)
    past = kept(cache, A, B)
    assert cache.find([(*A[:5], *A[5:]), (*B[:5], *B[5:])]) == (past, 2)
    assert cache.find([A + B]) == (EMPTY, 0)  # borders are the user's; the ids could be another's


def test_what_is_there_stays() -> None:
    cache = PastCache(EMPTY, 10_000)
    past = kept(cache, A)
    cache.put([A], after(EMPTY, A))
    assert cache.find([A]) == (past, 1)
    cache.check()


def test_the_least_recently_used_goes_first() -> None:
    cache = PastCache(EMPTY, 3 * 20 * BYTES)
    for ids in (A, B, C):
        kept(cache, ids)
    cache.find([A])
    kept(cache, D)
    assert cache.find([B]) == (EMPTY, 0)
    assert all(cache.find([ids])[1] for ids in (A, C, D))
    assert cache.counters.evictions == 1


def test_a_beginning_outlives_what_goes_on_from_it() -> None:
    cache = PastCache(EMPTY, 3 * 20 * BYTES)
    kept(cache, A, B)
    kept(cache, C)
    kept(cache, D)
    assert cache.find([A, B]) == (cache.find([A])[0], 1)
    kept(cache, A, B)
    assert tokens(cache.find([A, B])[0]) == [*A, *B]


def test_what_is_larger_than_the_budget_is_not_kept() -> None:
    cache = PastCache(EMPTY, 30 * BYTES)
    past = kept(cache, A, B)
    assert tokens(past) == [*A, *B]
    assert cache.used <= 30 * BYTES
    assert cache.find([A, B])[1] < 2


def test_a_past_whose_base_was_dropped_is_counted_whole() -> None:
    cache = PastCache(EMPTY, 10_000)
    base = after(EMPTY, A)  # held by a job; the cache never had it, or dropped it
    cache.put([A, B], after(base, B))
    cache.check()
    assert cache.used == 40 * BYTES
    assert cache.find([A]) == (EMPTY, 0)
    assert tokens(cache.find([A, B])[0]) == [*A, *B]
    cache.put([A], base)
    cache.check()
    assert cache.find([A]) == (base, 1)
    cache.budget = 0
    kept(cache, C)
    assert (len(cache), cache.used) == (0, 0)


def test_clearing() -> None:
    cache = PastCache(EMPTY, 10_000)
    past = kept(cache, A, B)
    cache.clear()
    assert (len(cache), cache.used) == (0, 0)
    assert cache.find([A, B]) == (EMPTY, 0)
    cache.put([A, B, C], after(past, C))  # of a job that was running meanwhile
    cache.check()
    assert tokens(cache.find([A, B, C])[0]) == [*A, *B, *C]


def test_a_part_of_a_piece() -> None:
    cache = PastCache(EMPTY, 10_000)
    base = kept(cache, A)
    kept(cache, A, B)
    other = (*B[:17], 9, 9, 9)
    part = cache.part(base, other)
    assert part is not None
    assert part.base is base
    assert tokens(part) == [*A, *B[:17]]
    kept(cache, A, (*B[:18], 8))
    longer = cache.part(base, other)
    assert longer is not None
    assert len(longer.ids) == 17
    assert cache.part(base, B[: SHORTEST - 1]) is None
    assert cache.part(base, (9, *B)) is None
    assert cache.part(EMPTY, B) is None  # after other tokens it would be another past


def test_random_use_against_a_plain_dictionary() -> None:
    random_ = random.Random(3)
    pieces = [piece(100 * n, random_.randint(1, 30)) for n in range(6)]
    for budget in (60, 300, 10**6):
        cache = PastCache(EMPTY, budget * BYTES)
        for _ in range(400):
            chain = [random_.choice(pieces) for _ in range(random_.randint(1, 4))]
            past = kept(cache, *chain)
            assert tokens(past) == [index for ids in chain for index in ids]
            assert cache.used <= budget * BYTES
        assert (cache.counters.evictions > 0) == (budget < 10**6)


def test_joining_copies() -> None:
    first = after(EMPTY, A)
    second = after(first, B)
    made = joined([first, second])
    assert (made.base, made.ids, made.length) == (EMPTY, A + B, 40)
    assert tokens(made) == [*A, *B]
    first.grown["past.0.key"][:] = -1
    assert tokens(made) == [*A, *B]


def test_a_way_is_kept_at_its_stops() -> None:
    small, large = piece(0, 10), piece(1000, 2 * GRID)
    way = Way((small, small, large, small, small), EMPTY, 0)
    stops = []
    while not way.is_over:
        room = way.room()
        assert way.ahead(stop_only=True) == way.ahead()[:room]
        way.add(after(way.end, way.ahead()[: min(room, GRID)]))
        if way.settle() is not None:
            stops.append((way.done, way.border.length))
    # After the preamble, then where GRID tokens have come together, and at the end.
    assert stops == [(1, 10), (3, 20 + 2 * GRID), (5, 40 + 2 * GRID)]
    assert tokens(way.end) == [*small, *small, *large, *small, *small]


def test_a_way_begins_where_the_cache_ends() -> None:
    way = Way((A, B, C), after(EMPTY, A), 1)
    assert way.ahead() == B + C
    assert not way.is_over
    assert Way((A,), after(EMPTY, A), 1).is_over
    with pytest.raises(AssertionError):
        way.add(after(EMPTY, B))
