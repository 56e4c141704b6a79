"""Allocators: nothing is given out twice, nothing is lost."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from readoff.engine.slots import SlotAllocator, SpanAllocator


@given(st.lists(st.tuples(st.booleans(), st.integers(1, 12)), max_size=60))
def test_spans_never_overlap_and_gaps_join(steps: list[tuple[bool, int]]) -> None:
    spans = SpanAllocator(40)
    held: list[tuple[int, int]] = []
    for take, number in steps:
        if take:
            start = spans.allocate(number)
            longest = max((length for _, length in spans.gaps()), default=0)
            if start is None:
                assert longest < number
            else:
                held.append((start, number))
        elif held:
            spans.release(*held.pop(number % len(held)))
        taken = [slot for start, length in held for slot in range(start, start + length)]
        free = [slot for start, length in spans.gaps() for slot in range(start, start + length)]
        assert sorted(taken + free) == list(range(40))
        assert (spans.used, spans.free) == (len(taken), len(free))
        gaps = spans.gaps()
        assert all(sum(a) < b[0] for a, b in itertools.pairwise(gaps))
    for span in held:
        spans.release(*span)
    assert spans.gaps() == [(0, 40)]


def test_the_tightest_gap_is_taken() -> None:
    spans = SpanAllocator(30)
    parts = [spans.allocate(n) for n in (8, 2, 5, 2)]
    assert parts == [0, 8, 10, 15]
    spans.release(0, 8)
    spans.release(10, 5)
    assert spans.allocate(4) == 10
    assert spans.allocate(8) == 0


def test_spans_grow_at_the_end_and_start_anew() -> None:
    spans = SpanAllocator()
    assert spans.allocate(1) is None
    spans.grow(4)
    assert spans.allocate(3) == 0
    spans.grow(10)
    assert spans.gaps() == [(3, 7)]
    spans.grow(10)
    spans.reset(6, 6)
    assert (spans.used, spans.gaps()) == (6, [])
    spans.reset(6, 2)
    assert spans.gaps() == [(2, 4)]


@given(st.lists(st.booleans(), max_size=40))
def test_single_slots(steps: list[bool]) -> None:
    slots, held = SlotAllocator(7), list[int]()
    for take in steps:
        if take:
            slot = slots.allocate()
            assert (slot is None) == (len(held) == 6)
            if slot is not None:
                held.append(slot)
        elif held:
            slots.release(held.pop())
        assert len(set(held)) == len(held) == slots.used
        assert all(0 < slot < 7 for slot in held)
        assert slots.used + slots.free == 6


def test_single_slots_grow_and_start_anew() -> None:
    slots = SlotAllocator()
    assert slots.allocate() is None
    slots.grow(3)
    assert [slots.allocate(), slots.allocate(), slots.allocate()] == [1, 2, None]
    slots.grow(4)
    assert slots.allocate() == 3
    slots.reset(5, 2)
    assert (slots.used, slots.allocate()) == (2, 3)
