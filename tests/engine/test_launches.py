"""Launches and waits of a forward pass through the Triton kernels, counted without a GPU.

A small model is bound by its launches: eager, each costs the host several microseconds; captured,
the device still one or two.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch

from readoff.bench.rungs.continuation import Continuation, Reading, batch_of
from readoff.engine.backbones.decoder import Backbone, Layer
from readoff.engine.batch import Batch
from readoff.engine.config import ModelConfig
from readoff.engine.forest import Forest
from readoff.engine.pools import KeptPools
from readoff.kernels.dispatch import OPS
from readoff.kernels.linear import linear
from readoff.kernels.pointwise import swiglu
from tests.models import ARCHITECTURES, Architecture, tiny_model

from .backbones.build import random_ids
from .launches import META, Launches, counted

QUESTIONS = (5, 40, 13)
STATE = 97

AN_ATTENTION_LAYER = {"qwen2": 9, "qwen3": 9, "qwen3_5": 10}
"""Two norms, qkv, norm-and-rotate, attention, o, gate-and-up, activation, down; Qwen3.5 gates the
attention's output."""

A_RECURRENT_LAYER = 11
"""Two norms, projection, convolution, preparation, output, gated norm, out, gate-and-up,
activation, down; and one launch a turn of the recurrence."""

FILLED = 2
"""Without kept pools, the zeros in slot 0 of states and tails."""

THE_LAST_LAYER = 3
"""More than the others: the query's own product, and the rows that are read, twice."""

OUTSIDE, READOUT = 6, 2


class NoWeights:
    """Leaves what it should fill."""

    def copy_into(self, name: str, dest: torch.Tensor) -> None:
        assert dest.device == META


def model(architecture: Architecture) -> Backbone:
    """Shapes without weights, two rounds of Qwen3.5's four layers."""
    config = ModelConfig.from_hf(tiny_model(architecture, layers=8).config.to_dict())
    return Backbone.load(config, NoWeights(), torch.bfloat16, META)


def cold() -> Batch:
    """A preamble, a state, three questions: all new."""
    forest = Forest()
    for length in QUESTIONS:
        chain = [random_ids(7, 1), random_ids(STATE - 7, 2), random_ids(length, length)]
        forest.read(forest.add(chain), range(10))
    return forest.batch()


def warm() -> Batch:
    """The three questions on a state that is kept."""
    parts, slot = [], STATE
    for length in QUESTIONS:
        ids, readings = random_ids(length, length), [Reading(length - 1, range(10))]
        chain = ((0, STATE),)
        parts.append(Continuation(ids, STATE, slot, chain=chain, parent_state=1, readings=readings))
        slot += length
    return batch_of(parts, slot, 2)


@dataclass(frozen=True)
class Pass:
    """Launches of each layer, of the pass outside of them, and of the readout."""

    layers: list[Launches]
    outside: Launches
    readout: Launches


def run(
    backbone: Backbone, made: Batch, kept: bool, patch: pytest.MonkeyPatch, mass: bool = False
) -> Pass:
    """One pass, its launches by where they come from."""
    batch, pools = made.to(META), None
    if kept:
        sizes = (batch.kv_slots, batch.state_slots)
        pools = KeptPools(backbone.config, *sizes, torch.bfloat16, META)
    layers: list[Launches] = []
    before = Launches()

    def enter(layer: torch.nn.Module, args: Any) -> None:
        before.clear()
        before.update(launches)

    def leave(layer: torch.nn.Module, args: Any, out: Any) -> None:
        layers.append(launches - before)

    hooks = [layer.register_forward_pre_hook(enter) for layer in backbone.layers]
    hooks += [layer.register_forward_hook(leave) for layer in backbone.layers]
    with counted(patch) as launches:
        hidden = backbone(batch, pools)
    for hook in hooks:
        hook.remove()
    assert len(layers) == len(backbone.layers)
    with counted(patch) as readout:
        backbone.readout(hidden, batch, mass)
    return Pass(layers, launches - sum(layers, Launches()), readout)


TREES = pytest.mark.parametrize(
    ("made", "kept"), [(cold, False), (cold, True), (warm, True)], ids=["cold", "scratch", "warm"]
)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@TREES
def test_launches(
    architecture: Architecture,
    made: Callable[[], Batch],
    kept: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    backbone, batch = model(architecture), made()
    found = run(backbone, batch, kept, monkeypatch)
    for layer, launches in zip(backbone.layers, found.layers, strict=True):
        assert isinstance(layer, Layer)
        bound = AN_ATTENTION_LAYER[architecture]
        if backbone.config.layer_types[layer.index] == "linear_attention":
            bound = A_RECURRENT_LAYER + batch.waves + FILLED * (not kept)
        assert launches.total() <= bound + THE_LAST_LAYER * layer.last, (layer.index, launches)
    assert found.outside.total() <= OUTSIDE, found.outside
    assert found.readout.total() <= READOUT, found.readout


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_twelve_a_layer_with_the_state_warm(
    architecture: Architecture, monkeypatch: pytest.MonkeyPatch
) -> None:
    layers = run(model(architecture), warm(), True, monkeypatch).layers
    assert sum(launches.total() for launches in layers) <= 12 * len(layers)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@TREES
def test_every_operator_runs_in_triton_and_waits_for_nothing(
    architecture: Architecture,
    made: Callable[[], Batch],
    kept: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The legal mass too. That there was no wait: every one of them raises (see below)."""
    before = {name: op.calls.copy() for name, op in OPS.items()}
    run(model(architecture), made(), kept, monkeypatch, mass=True)
    ran = {name: set(op.calls - before[name]) for name, op in OPS.items()}
    assert ran.pop("linear") == {"plain"}
    assert {name for name, how in ran.items() if how} >= {
        "add_rms_norm",
        "label_readout",
        "log_partition",
        "norm_rope_write",
        "rms_norm",
        "swiglu",
        "tree_attention",
    }
    recurrent = {"causal_conv", "gated_delta", "gated_rms_norm", "sigmoid_gate"}
    assert {name for name in recurrent if ran[name]} == (
        recurrent if architecture == "qwen3_5" else set()
    )
    assert set().union(*ran.values()) == {"triton"}


WAITS: dict[str, Callable[[torch.Tensor], Any]] = {
    "item": lambda x: x[0].item(),
    "tolist": lambda x: x.tolist(),
    "int": lambda x: int(x[0]),
    "if": lambda x: bool(x[0] > 0),
    "range": lambda x: range(x[0]),
    "cpu": lambda x: x.cpu(),
    "numpy": lambda x: x.numpy(),
    "nonzero": lambda x: x.nonzero(),
    "mask": lambda x: x[x > 0],
    "write under a mask": lambda x: x.masked_select(x > 0),
    "unique": lambda x: x.unique(),
    "repeat_interleave": lambda x: x.repeat_interleave(x),
    "equal": lambda x: torch.equal(x, x + 1),
    "to the device": lambda x: torch.ones(3).to(META),
    "from a list": lambda x: torch.tensor([1, 2], device=META),
    "copied over": lambda x: x.copy_(torch.ones(3, dtype=torch.long)),
}


@pytest.mark.parametrize("wait", WAITS)
def test_a_wait_would_be_noticed(wait: str, monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.empty(3, dtype=torch.long, device=META)
    with counted(monkeypatch), pytest.raises((RuntimeError, TypeError, AssertionError)):
        WAITS[wait](x)


def test_what_counts_as_a_launch(monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.empty(6, 4, dtype=torch.bfloat16, device=META)
    weight = torch.empty(8, 4, dtype=torch.bfloat16, device=META)
    with counted(monkeypatch) as launches:
        x[0] = 1
    assert launches == {"aten.copy_": 1}
    with counted(monkeypatch) as launches:
        views = (x[1:], x.view(4, 6), x.T, x.split(2, dim=-1), x.flatten(), x.detach())
        room = (torch.empty_like(x), torch.empty(3, device=META), x.new_empty(2))
    assert len(views) + len(room) == 9
    assert launches == {}
    with counted(monkeypatch) as launches:
        y = linear(x, weight, None)
        swiglu(y, 4)
        x.T.reshape(-1)
        (x + 1).float()
    assert launches.pop("aten.mm") == 1
    assert launches.pop("aten.clone") == 1
    assert launches.pop("aten.add") == 1
    assert launches.pop("aten._to_copy") == 1
    assert len(launches) == 1, "the Triton kernel"
    assert launches.total() == 1
