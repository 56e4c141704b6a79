"""The fixed-size forward equals the plain one: whatever lies in its buffers, whatever was there.

Without a GPU nothing here is captured: the same buffers, padding and kernels run one by one.
"""

from __future__ import annotations

import random

import pytest
import torch

from readoff.engine import captured
from readoff.engine.backbones.decoder import Backbone
from readoff.engine.buckets import Bucket
from readoff.engine.forest import Forest
from readoff.kernels import dispatch
from tests.engine.backbones.build import backbone_of
from tests.engine.fixed_forwards import (
    KINDS,
    QUESTIONS,
    SIZES,
    STATE,
    forest_of,
    kernels,
    plain,
    poison,
    pools_for,
    ready,
    same,
    warm,
)
from tests.models import ARCHITECTURES, tiny_model


@pytest.fixture(scope="module", params=ARCHITECTURES)
def backbone(request: pytest.FixtureRequest) -> Backbone:
    return backbone_of(tiny_model(request.param))


@pytest.fixture(scope="module", params=ARCHITECTURES)
def small(request: pytest.FixtureRequest) -> Backbone:
    """Two layers, one of each kind: Triton's interpreter is slow."""
    mixed = {"layer_types": KINDS} if request.param == "qwen3_5" else {}
    return backbone_of(tiny_model(request.param, layers=2, **mixed))


@pytest.fixture(scope="module")
def hybrid() -> Backbone:
    return backbone_of(tiny_model("qwen3_5", layers=2, layer_types=KINDS))


def check_forests(
    backbone: Backbone, implementation: str, buckets: tuple[int | Bucket, ...], tokens: list[int]
) -> None:
    """Random forests one after the other through the same poisoned buffers, against plain passes.
    Every bucket has its turn."""
    dice = random.Random(implementation)
    forward = ready(backbone, buckets=buckets)
    ran = {name: dispatch.OPS[name].calls[implementation] for name in captured.TREE}
    for count in tokens:
        batch = forest_of(dice, count)
        with torch.inference_mode():
            poison(forward)
        with kernels(implementation):
            found = forward.run(batch, legal_mass=count < 20)
        same(found, plain(backbone, batch))
    assert forward.eager == {}
    assert sum(forward.replayed.values()) == len(tokens)
    assert len(forward.replayed) == len(buckets)
    for name, before in ran.items():
        needed = backbone.config.is_hybrid or name not in ("causal_conv", "gated_delta")
        if needed:
            assert dispatch.OPS[name].calls[implementation] > before


def test_random_forests_in_every_bucket(backbone: Backbone) -> None:
    check_forests(backbone, "reference", SIZES, [72, 3, 40, 16, 1])


def test_random_forests_through_triton(small: Backbone) -> None:
    check_forests(small, "triton", (8, 32), [29, 3, 18])


@pytest.mark.slow
def test_random_forests_in_every_bucket_through_triton(backbone: Backbone) -> None:
    check_forests(backbone, "triton", SIZES, [72, 3, 40, 16, 1])


def test_the_same_batch_twice_after_others(backbone: Backbone) -> None:
    """Nothing of a longer batch survives in the buffers of a shorter one: equal to the bit."""
    dice = random.Random(5)
    forward = ready(backbone, buckets=(48,))
    short, long = forest_of(dice, 9), forest_of(dice, 48)
    with kernels("reference"):
        first = forward.run(short)
        forward.run(long)
        again = forward.run(short)
    assert torch.equal(first.logits, again.logits)
    assert torch.equal(first.probabilities, again.probabilities)


def test_results_outlive_the_next_run(hybrid: Backbone) -> None:
    dice = random.Random(6)
    forward = ready(hybrid)
    one, other = forest_of(dice, 12), forest_of(dice, 12)
    with kernels("reference"):
        first = forward.run(one)
        kept = first.logits.clone(), first.probabilities.clone()
        forward.run(other)
    assert torch.equal(first.logits, kept[0])
    assert torch.equal(first.probabilities, kept[1])


@pytest.mark.parametrize("implementation", ["reference", "triton"])
def test_a_warm_state_goes_on(small: Backbone, implementation: str) -> None:
    pools = pools_for(small)
    forward = ready(small, pools=pools, buckets=(16, 32))
    state, asked = warm(pools)
    with kernels(implementation):
        forward.run(state)
        found = [forward.run(asked) for _ in range(1 + (implementation == "reference"))]
    forest = Forest()
    for ids in QUESTIONS:
        forest.read(forest.add([STATE, ids]), range(40, 52))
    for one in found:
        same(one, plain(small, forest.batch()))
    assert forward.eager == {}


def test_warming_up_leaves_kept_pools_alone(backbone: Backbone) -> None:
    pools = pools_for(backbone)
    kept: list[tuple[torch.Tensor, slice]] = []
    for layer, kind in enumerate(backbone.config.layer_types):
        if kind == "full_attention":
            kept += [(t, slice(0, -1)) for t in (pools.kv(layer).k, pools.kv(layer).v)]
        else:
            states = pools.states(layer)
            kept += [(t, slice(1, None)) for t in (states.recurrent, states.tails)]
    for tensor, _ in kept:
        tensor[1:] = torch.randn(tensor[1:].shape)
        tensor[0] = 0.0
    before = [tensor.clone() for tensor, _ in kept]
    forward = ready(backbone, pools=pools, buckets=(16,))
    slot = forward._ready[forward.buckets[0]]
    with kernels("reference"), torch.inference_mode():
        slot.static.write(None)
        forward._forward(slot.static)
    for (tensor, part), old in zip(kept, before, strict=True):
        assert torch.equal(tensor[part], old[part])
