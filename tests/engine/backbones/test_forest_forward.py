"""One pass over a forest equals separate passes, and no question moves another."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from readoff.engine.backbones.decoder import Backbone
from tests.models import tiny_model

from .build import Ids, backbone_of, probabilities_of, random_ids

Chains = list[list[Ids]]
BOUND = 1e-5


@pytest.fixture(scope="module", params=["qwen2", "qwen3", "qwen3_5"])
def backbone(request: pytest.FixtureRequest) -> Backbone:
    architecture: Any = request.param
    return backbone_of(tiny_model(architecture))


def alone(backbone: Backbone, chains: Chains) -> torch.Tensor:
    """Each chain in a pass of its own."""
    return torch.cat([probabilities_of(backbone, [chain]) for chain in chains])


def fused(backbone: Backbone, chains: Chains) -> torch.Tensor:
    """Each chain as one segment, in a pass of its own: no tree anywhere."""
    whole = [[tuple(i for piece in chain for i in piece)] for chain in chains]
    return alone(backbone, whole)


def questions(lengths: range | list[int], state: int = 90) -> Chains:
    return [[random_ids(7, 1), random_ids(state, 2), random_ids(n, 100 + n)] for n in lengths]


@pytest.mark.parametrize("count", [1, 2, 8])
def test_questions_of_every_length_equal_separate_passes(backbone: Backbone, count: int) -> None:
    """Lengths 1..70, `count` at a time."""
    step = 1 if count == 8 else 9  # the small counts sample, the large one takes them all
    for first in range(1, 71, count * step):
        chains = questions([min(70, first + i) for i in range(count)])
        found = probabilities_of(backbone, chains)
        assert (found - alone(backbone, chains)).abs().max() <= BOUND
        assert (found - fused(backbone, chains)).abs().max() <= BOUND


@pytest.mark.parametrize("state", [1, 63, 64, 65, 127, 128, 129])
def test_states_around_the_chunk_size(backbone: Backbone, state: int) -> None:
    chains = questions([1, 2, 3, 40], state)
    assert (probabilities_of(backbone, chains) - fused(backbone, chains)).abs().max() <= BOUND


def test_order_does_not_matter(backbone: Backbone) -> None:
    chains = questions([5, 40, 1, 64, 13, 2, 70, 33])
    order = [3, 0, 7, 5, 1, 6, 2, 4]
    wanted = probabilities_of(backbone, chains)[order]
    found = probabilities_of(backbone, [chains[i] for i in order])
    assert (found - wanted).abs().max() <= BOUND


def test_changing_or_removing_one_moves_no_other(backbone: Backbone) -> None:
    chains = questions([5, 40, 1, 64])
    wanted = probabilities_of(backbone, chains)
    changed = [*chains[:1], [*chains[1][:2], random_ids(23, 999)], *chains[2:]]
    found = probabilities_of(backbone, changed)
    assert (found - wanted)[[0, 2, 3]].abs().max() <= BOUND
    assert (found - wanted)[1].abs().max() > 1e-3
    removed = probabilities_of(backbone, chains[:1] + chains[2:])
    assert (removed - wanted[[0, 2, 3]]).abs().max() <= BOUND


@pytest.mark.parametrize("length", [1, 2, 3, 4, 5])
def test_a_loud_first_question_is_not_heard(backbone: Backbone, length: int) -> None:
    """Pitfalls 4 and 5: rows bleed into each other, and masks don't isolate a recurrence."""
    state, neutral = random_ids(30, 1), random_ids(9, 2)
    loud = (7,) * length
    wanted = probabilities_of(backbone, [[state, neutral]])[0]
    found = probabilities_of(backbone, [[state, loud], [state, neutral]])[1]
    assert (found - wanted).abs().max() <= BOUND


def test_strangers_in_one_pass(backbone: Backbone) -> None:
    """Pitfall 20: every request gets its own answer."""
    chains = [[random_ids(n, n), random_ids(3 + n % 5, 50 + n)] for n in range(1, 33)]
    assert (probabilities_of(backbone, chains) - alone(backbone, chains)).abs().max() <= BOUND


def test_copies_of_a_question_agree(backbone: Backbone) -> None:
    """Pitfall 19: a batch changes the answer near ties."""
    chain = questions([11])
    one = probabilities_of(backbone, chain)[0]
    for others in (3, 4, 31):
        strangers = [[random_ids(20, 7), random_ids(9, 300 + i)] for i in range(others)]
        found = probabilities_of(backbone, chain * 3 + strangers)
        assert (found[:3] - one).abs().max() <= BOUND


def test_a_growing_trajectory(backbone: Backbone) -> None:
    """A state in many parts: each part is a segment of its own, below the one before it."""
    parts = [random_ids(n, n) for n in (4, 1, 64, 30, 2, 65)]
    chains = [[*parts[:n], random_ids(6, 9)] for n in range(1, len(parts) + 1)]
    assert (probabilities_of(backbone, chains) - fused(backbone, chains)).abs().max() <= BOUND


def test_repeated_tokens(backbone: Backbone) -> None:
    """Pitfall 6b: a run of one token, where the chunked delta rule of others explodes."""
    chains: Chains = [[(5,) * 150, (5,) * n] for n in (1, 64, 70)]
    assert (probabilities_of(backbone, chains) - fused(backbone, chains)).abs().max() <= BOUND


@pytest.mark.slow
@pytest.mark.parametrize("state", [1, 2, 3, 5, 63, 64, 65, 127, 200, 527, 528, 529])
@pytest.mark.parametrize("length", range(1, 71))
def test_the_full_product(backbone: Backbone, state: int, length: int) -> None:
    chains = questions([length, 71 - length], state)
    assert (probabilities_of(backbone, chains) - fused(backbone, chains)).abs().max() <= BOUND
