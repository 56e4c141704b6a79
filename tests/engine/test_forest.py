"""The forest: equal beginnings held once, and the batch that it becomes."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from readoff.engine.forest import Forest

PREAMBLE, STATE, OTHER = (1, 2), (3, 4, 5), (9,)


def two_states() -> Forest:
    forest = Forest()
    for pieces in (
        (PREAMBLE, STATE, (6, 7)),
        (PREAMBLE, OTHER, (6, 7)),
        (PREAMBLE, STATE, (8,)),
    ):
        forest.read(forest.add(pieces), [10, 11])
    return forest


def test_a_shared_beginning_is_one_segment() -> None:
    forest = two_states()
    assert forest.tokens == 2 + 3 + 1 + 2 + 2 + 1
    assert [s.parent for s in forest.segments] == [-1, 0, 1, 0, 3, 1]
    assert [s.depth for s in forest.segments] == [0, 1, 2, 1, 2, 2]


def test_an_equal_chain_is_the_same_leaf() -> None:
    forest = Forest()
    assert forest.add([PREAMBLE, STATE]) == forest.add([PREAMBLE, STATE])
    assert forest.add([PREAMBLE, STATE]) != forest.add([STATE, PREAMBLE])


def test_the_batch_lays_children_behind_their_parents() -> None:
    batch = two_states().batch()
    assert batch.tokens.tolist() == [1, 2, 3, 4, 5, 6, 7, 8, 9, 6, 7]
    assert batch.positions.tolist() == [0, 1, 2, 3, 4, 5, 6, 5, 2, 3, 4]
    assert batch.seg_start.tolist() == [0, 2, 5, 7, 8, 9]
    assert batch.seg_depth.tolist() == [0, 1, 2, 2, 1, 2]
    assert batch.rows.tolist() == [6, 10, 7]


def test_state_slots_are_written_only_where_a_child_reads() -> None:
    batch = two_states().batch()
    assert batch.state_out.tolist() == [1, 2, -1, -1, 3, -1]
    assert batch.parent_state.tolist() == [0, 1, 2, 2, 1, 3]
    assert batch.state_slots == 4


def test_neighbouring_ancestors_are_one_span() -> None:
    runs = two_states().batch().runs
    assert runs.chain_offsets.tolist() == [0, 0, 1, 2, 3, 4, 6]
    assert runs.chain_spans.tolist() == [[0, 2], [0, 5], [0, 5], [0, 2], [0, 2], [8, 1]]


def test_a_read_may_be_anywhere_in_a_segment() -> None:
    forest = Forest()
    leaf = forest.add([PREAMBLE, STATE])
    forest.read(leaf, [1, 2], offset=0, prior=[0.5, 0.0], temperature=2.0)
    forest.read(leaf, [1, 2, 3])
    batch = forest.batch()
    assert batch.rows.tolist() == [2, 4]
    assert batch.read_runs.kv_length.tolist() == [1, 3]
    assert batch.label_offsets.tolist() == [0, 2, 5]
    assert batch.prior.tolist() == [0.5, 0.0, 0.0, 0.0, 0.0]
    assert batch.temperature.tolist() == [2.0, 1.0]


def test_a_segment_is_never_empty() -> None:
    with pytest.raises(AssertionError):
        Forest().add([()])


@given(st.lists(st.lists(st.sampled_from([(1,), (2, 3), (4, 4, 4)]), min_size=1), min_size=1))
def test_every_chain_can_be_read_back_from_the_batch(chains: list[list[tuple[int, ...]]]) -> None:
    """What a row's attention sees plus its own segment is exactly the chain that was added."""
    forest = Forest()
    for chain in chains:
        forest.read(forest.add(chain), [0, 1])
    batch = forest.batch()
    assert sorted(batch.slots.tolist()) == list(range(forest.tokens))
    runs = batch.read_runs
    for i, chain in enumerate(chains):
        at = slice(int(runs.chain_offsets[i]), int(runs.chain_offsets[i + 1]))
        own = [int(runs.kv_start[i]), int(runs.kv_length[i])]
        spans = [*runs.chain_spans[at].tolist(), own]
        slots = torch.cat([torch.arange(a, a + n) for a, n in spans])
        assert batch.tokens[slots].tolist() == [t for piece in chain for t in piece]
        assert batch.positions[slots].tolist() == list(range(len(slots)))
