"""The whole forward through the Triton kernels equals the reference, in Triton's interpreter."""

from __future__ import annotations

import pytest
import torch

from readoff.bench.rungs.continuation import Continuation, Reading, batch_of
from readoff.engine.backbones.decoder import Backbone
from readoff.engine.batch import Batch, Readout
from readoff.engine.forest import Forest
from readoff.engine.pools import KeptPools
from readoff.kernels import dispatch
from tests.models import ARCHITECTURES, tiny_model

from .build import backbone_of, random_ids

BOUND = 1e-5
"""Of probabilities, and of logits relative to the largest: fp32 sums in another order."""

ALWAYS = {
    "add_rms_norm",
    "label_readout",
    "log_partition",
    "norm_rope_write",
    "rms_norm",
    "swiglu",
    "tree_attention",
}
HYBRID = {"causal_conv", "gated_delta", "gated_rms_norm", "sigmoid_gate"}


@pytest.fixture(scope="module", params=ARCHITECTURES)
def backbone(request: pytest.FixtureRequest) -> Backbone:
    """Few layers, for the interpreter is slow: a last one, and of each kind one before it."""
    if request.param == "qwen3_5":
        kinds = ["full_attention", "linear_attention", "full_attention"]
        model = tiny_model(request.param, layers=3, layer_types=kinds)
    else:
        model = tiny_model(request.param, layers=2)
    return backbone_of(model, pack=False)


def readout(backbone: Backbone, batch: Batch, how: str, pools: KeptPools | None = None) -> Readout:
    """`how`: "reference" or "triton". Products are the library's in both."""
    names = [name for name in dispatch.OPS if name != "linear"]
    with torch.inference_mode(), dispatch.use(how, *names):
        return backbone.readout(backbone(batch, pools), batch, legal_mass=True)


def same(found: Readout, wanted: Readout) -> None:
    assert (found.logits - wanted.logits).abs().max() <= BOUND * wanted.logits.abs().max()
    assert (found.probabilities - wanted.probabilities).abs().max() <= BOUND
    assert found.legal_mass is not None
    assert wanted.legal_mass is not None
    assert (found.legal_mass - wanted.legal_mass).abs().max() <= BOUND


def forest() -> Batch:
    """Three levels, lengths around the chunk of the delta rule, 2 to 255 labels, a read inside."""
    made = Forest()
    preamble, state, other = random_ids(7, 1), random_ids(65, 2), (5,) * 6
    for length, labels in ((1, 26), (16, 27), (3, 255)):
        leaf = made.add([preamble, state, random_ids(length, length)])
        prior = [0.01 * n for n in range(labels)]
        made.read(leaf, range(100, 100 + labels), prior, 0.5 + length / 16)
    made.read(made.add([preamble, other]), range(10), offset=4)
    made.read(made.add([preamble, other, random_ids(2, 3), random_ids(4, 4)]), [3, 1])
    made.read(made.add([random_ids(6, 5)]), [511, 0, 7])
    return made.batch()


def test_a_forest(backbone: Backbone) -> None:
    before = {name: op.calls["triton"] for name, op in dispatch.OPS.items()}
    batch = forest()
    found = readout(backbone, batch, "triton")
    ran = {name for name, op in dispatch.OPS.items() if op.calls["triton"] > before[name]}
    assert ran == ALWAYS | (HYBRID if backbone.config.architecture == "qwen3_5" else set())
    same(found, readout(backbone, batch, "reference"))


STATE, SLOTS, STATES = 12, 60, 4


def question(
    length: int, slot: int, below: tuple[int, int] | None = None, out: int = -1
) -> Continuation:
    """New tokens on the kept state, or on a question of the same pass: its (slot, length)."""
    chain, position = ((0, STATE),), STATE
    if below is not None:
        chain, position = (*chain, below), position + below[1]
    return Continuation(
        random_ids(length, slot),
        position,
        slot,
        chain=chain,
        parent_state=2 if below is None else 3,
        state_out=out,
        readings=[Reading(length - 1, range(9), temperature=2.0)],
    )


def warmed(backbone: Backbone, how: str) -> Readout:
    """A state into kept pools, then questions on it, one of which two others go on from."""
    pools = KeptPools(backbone.config, SLOTS, STATES, torch.float32, torch.device("cpu"))
    first = Continuation(random_ids(STATE, 1), 0, 0, state_out=2, readings=[Reading(0, [0])])
    readout(backbone, batch_of([first], SLOTS, STATES), how, pools)
    parts = [
        question(5, 20),
        question(9, 30, out=3),
        question(2, 40, below=(30, 9)),
        question(6, 50, below=(30, 9)),
    ]
    return readout(backbone, batch_of(parts, SLOTS, STATES), how, pools)


def test_questions_on_a_kept_state(backbone: Backbone) -> None:
    same(warmed(backbone, "triton"), warmed(backbone, "reference"))
