"""`Storage`: pools that grow within their budget, and what lies in them when they are moved."""

from __future__ import annotations

import pytest
import torch

from readoff.engine.storage import Room, Storage, out_of_memory
from tests import models

from .passes_rig import KINDS, backbone

CPU = torch.device("cpu")


def storage(kind: models.Architecture, budget: int) -> Storage:
    return Storage(backbone(kind).config, torch.float32, CPU, budget)


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> models.Architecture:
    found: models.Architecture = request.param
    return found


def test_sizes_are_those_of_the_pools(kind: models.Architecture) -> None:
    made = storage(kind, 1 << 24)
    assert made.nbytes == made.size(0, 1) == made.used_bytes
    assert made.allocate([10, 20], 2) is not None
    assert made.nbytes == made.size(made.tokens.capacity, made.states.capacity)
    assert made.used_bytes == made.size(30, 3)
    assert made.hybrid == (kind == "qwen3_5")


def test_spans_lie_side_by_side_where_they_can(kind: models.Architecture) -> None:
    made = storage(kind, 1 << 24)
    assert made.allocate([3, 4, 5], 0) == Room((0, 3, 7), ())
    assert made.allocate([6], 1) == Room((12,), (1,))


def test_growth_keeps_what_is_there(kind: models.Architecture) -> None:
    made = storage(kind, 1 << 26)
    room = made.allocate([700], 3)
    assert room is not None
    fill(made)
    before = snapshot(made, range(700), room.states)
    generation = made.pools.generation
    assert made.allocate([5000], 30) is not None
    assert made.pools.generation > generation
    assert same(before, snapshot(made, range(700), room.states))


def test_the_budget_is_kept_and_nothing_is_given_by_halves(kind: models.Architecture) -> None:
    made = storage(kind, 0)
    made.budget = made.size(100, 4)
    assert made.allocate([60], 1) is not None
    used = made.used_bytes
    assert made.fits(40, 2)
    assert not made.fits(41, 2)
    assert made.allocate([41], 2) is None
    assert made.allocate([10, 10, 21], 2) is None
    assert made.used_bytes == used
    assert made.nbytes <= made.budget


def test_spans_that_fit_apart_only(kind: models.Architecture) -> None:
    made = storage(kind, 0)
    made.budget = made.size(30, 1)
    first = made.allocate([10, 10, 10], 0)
    assert first is not None
    made.tokens.release(first.spans[0], 10)
    made.tokens.release(first.spans[2], 10)
    assert made.allocate([15], 0) is None
    room = made.allocate([10, 5], 0)
    assert room is not None
    assert sorted(room.spans) == [0, 20]


@pytest.mark.parametrize("more", [(0, 0), (900, 1), (10, 6)])
def test_moving_keeps_what_is_held(kind: models.Architecture, more: tuple[int, int]) -> None:
    made = storage(kind, 1 << 26)
    room = made.allocate([50, 30, 20], 4)
    assert room is not None
    fill(made)
    made.tokens.release(room.spans[0], 50)
    held = [(room.spans[1], 30), (room.spans[2], 20)]
    states = [room.states[3], room.states[1]]
    slots = [s for start, n in held for s in range(start, start + n)]
    before = snapshot(made, slots, states)
    starts, moved = made.rearrange(held, states, *more)
    assert (starts, moved) == ([0, 30], [1, 2])
    assert same(before, snapshot(made, range(50), moved))
    assert (made.tokens.used, made.states.used) == (50, 2)
    assert made.allocate([more[0]] if more[0] else [], more[1]) is not None
    for layer, layer_kind in enumerate(backbone(kind).config.layer_types):
        if layer_kind == "linear_attention":
            assert not made.pools.states(layer).recurrent[0].any()


def test_memory_is_shifted_between_tokens_and_states() -> None:
    made = storage("qwen3_5", 0)
    made.budget = made.size(2000, 11)
    assert made.allocate([1000], 2) is not None
    starts, states = made.rearrange([(0, 10)], [1], 20, 9)
    assert (starts, states) == ([0], [1])
    assert made.allocate([20], 9) is not None
    assert made.nbytes <= made.budget


def test_reset_gives_everything_back(kind: models.Architecture) -> None:
    made = storage(kind, 1 << 24)
    assert made.allocate([100], 3) is not None
    made.reset()
    assert (made.tokens.used, made.states.used) == (0, 0)
    assert made.nbytes == made.size(0, 1)
    assert made.allocate([100], 3) is not None


def test_memory_that_runs_out_while_growing(
    kind: models.Architecture, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = storage(kind, 1 << 26)
    assert made.allocate([100], 1) is not None
    room = made.tokens.capacity

    def fail(*_: int) -> None:
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(made.pools, "grow", fail)
        assert made.allocate([room], 0) is None
        assert not made.fits(room, made.states.free)
        assert made.fits(room - 100, made.states.free)
    assert made.allocate([room], 0) is not None

    def other(*_: int) -> None:
        raise ValueError("not that")

    monkeypatch.setattr(made.pools, "grow", other)
    with pytest.raises(ValueError, match="not that"):
        made.allocate([1 << 14], 0)


@pytest.mark.parametrize(
    ("error", "wanted"),
    [
        (MemoryError(), True),
        (torch.OutOfMemoryError("CUDA out of memory"), True),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried"), True),
        (RuntimeError("[enforce fail] not enough memory: you tried to"), True),
        (RuntimeError("shapes don't match"), False),
        (ValueError("not enough memory"), False),
    ],
)
def test_what_counts_as_memory_that_ran_out(error: Exception, wanted: bool) -> None:
    assert out_of_memory(error) is wanted


def fill(made: Storage) -> None:
    generator = torch.Generator().manual_seed(0)
    for tensor in made.pools._tensors(made.pools._kv):
        tensor.copy_(torch.randn(tensor.shape, generator=generator))
    for tensor in made.pools._tensors(made.pools._states):
        tensor[1:] = torch.randn(tensor[1:].shape, generator=generator)


def snapshot(made: Storage, slots: range | list[int], states: object) -> list[torch.Tensor]:
    index = torch.tensor(list(slots))
    kept = torch.tensor(list(states))  # type: ignore[call-overload]
    return [
        *(tensor[index] for tensor in made.pools._tensors(made.pools._kv)),
        *(tensor[kept] for tensor in made.pools._tensors(made.pools._states)),
    ]


def same(one: list[torch.Tensor], other: list[torch.Tensor]) -> bool:
    return all(torch.equal(a, b) for a, b in zip(one, other, strict=True))
