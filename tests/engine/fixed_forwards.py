"""Fixed-size forwards over random forests, and the plain passes they must equal."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from readoff.engine.backbones.decoder import Backbone
from readoff.engine.batch import Batch, Readout, Runs
from readoff.engine.buckets import Bucket
from readoff.engine.captured import CapturedForward
from readoff.engine.forest import Forest
from readoff.engine.packing import Placed, Reading, pack
from readoff.engine.pools import KeptPools
from readoff.kernels import dispatch
from tests.engine.backbones.build import random_ids

SIZES = (16, 48, Bucket(72, 20, 24, 400, 60, 70))
BOUND = 1e-5
KINDS = ["linear_attention", "full_attention"]
"""Two layers of a hybrid, one of each kind."""
STATE, QUESTIONS = random_ids(30, 1), [random_ids(n, 40 + n) for n in (1, 2, 9)]


@contextmanager
def kernels(implementation: str) -> Iterator[None]:
    """Force every operator but `linear`, whose rows know nothing of one another."""
    names = [name for name in dispatch.OPS if name != "linear"]
    with dispatch.use(implementation, *names):
        yield


def forest_of(dice: random.Random, most: int) -> Batch:
    """A random forest of at most `most` tokens with reads of 1 to 60 labels anywhere."""
    forest = Forest()
    roots: list[list[tuple[int, ...]]] = [[]]
    while forest.tokens < most:
        chain = dice.choice(roots)
        length = min(dice.choice([1, 1, 2, 3, 5, 9, 17, 30]), most - forest.tokens)
        chain = [*chain, random_ids(length, dice.randrange(2**20))]
        if len(chain) < 5:
            roots.append(chain)
        leaf = forest.add(chain)
        if dice.random() < 0.7 or not forest.reads:
            count = dice.choice([1, 2, 3, 26, 27, 60])
            labels = dice.sample(range(512), count)
            prior = [dice.uniform(-1, 1) for _ in labels]
            forest.read(leaf, labels, prior, dice.uniform(0.5, 2), dice.randrange(length))
        if len(forest.segments) > 15 or sum(len(r.labels) for r in forest.reads) > 300:
            break
    return forest.batch()


def plain(backbone: Backbone, batch: Batch, pools: KeptPools | None = None) -> Readout:
    with torch.inference_mode():
        return backbone.readout(backbone(batch, pools), batch, legal_mass=True)


def same(found: Readout, wanted: Readout) -> None:
    assert found.logits.shape == wanted.logits.shape
    assert (found.logits - wanted.logits).abs().max() <= BOUND * wanted.logits.abs().max()
    assert (found.probabilities - wanted.probabilities).abs().max() <= BOUND
    if found.legal_mass is not None:
        assert wanted.legal_mass is not None
        assert (found.legal_mass - wanted.legal_mass).abs().max() <= BOUND


def ready(backbone: Backbone, **options: Any) -> CapturedForward:
    options = {"buckets": SIZES, "capture": False} | options
    forward = CapturedForward(backbone, **options)
    forward.warmup()
    return forward


def tensors(batch: Batch) -> Iterator[torch.Tensor]:
    """Every tensor of a batch."""
    for value in vars(batch).values():
        if isinstance(value, Runs):
            yield from vars(value).values()
        elif isinstance(value, torch.Tensor):
            yield value


def poison(forward: CapturedForward) -> None:
    """What no pass may depend on: buffers of the pass before, and scratch memory but slot 0."""
    for slot in forward._ready.values():
        for tensor in tensors(slot.static.batch):
            tensor.fill_(torch.nan if tensor.is_floating_point() else -(2**40))
    pools = forward._pools
    assert pools is not None
    for layer, kind in enumerate(forward.backbone.config.layer_types):
        if kind == "full_attention":
            for tensor in (pools.kv(layer).k, pools.kv(layer).v):
                tensor.fill_(torch.nan)
        else:
            for tensor in (pools.states(layer).recurrent, pools.states(layer).tails):
                tensor[1:] = torch.nan


def warm(pools: KeptPools) -> tuple[Batch, Batch]:
    """A state, and three questions that go on from it, in kept pools but for their last slot."""
    state = [Placed(STATE, 0, 0, state_out=1)]
    asked, ends, slot = [], [], len(STATE)
    for n, ids in enumerate(QUESTIONS):
        asked.append(Placed(ids, len(STATE), slot, ((0, len(STATE)),), parent_state=1))
        ends.append(Reading(n, len(ids) - 1, range(40, 52), [0.0] * 12))
        slot += len(ids)
    sizes = (pools.kv_slots - 1, 4)
    return pack(state, [Reading(0, 0, [0], [0.0])], *sizes), pack(asked, ends, *sizes)


def pools_for(backbone: Backbone) -> KeptPools:
    return KeptPools(backbone.config, 64, 4, torch.float32, torch.device("cpu"))
