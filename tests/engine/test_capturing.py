"""What is captured, what fits, what runs eagerly and why it says so."""

from __future__ import annotations

import inspect
import json
import random
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import pytest
import torch

from readoff.engine import captured, static_batch
from readoff.engine.backbones.decoder import Backbone
from readoff.engine.batch import Batch
from readoff.engine.buckets import TOKENS
from readoff.engine.capture import Capture
from readoff.engine.captured import CapturedForward
from readoff.engine.forest import Forest
from readoff.engine.packing import Placed, Reading, pack
from readoff.kernels import dispatch, triton_support
from tests.engine.backbones.build import backbone_of, random_ids
from tests.engine.fixed_forwards import (
    KINDS,
    SIZES,
    STATE,
    forest_of,
    kernels,
    plain,
    pools_for,
    ready,
    same,
    warm,
)
from tests.models import tiny_model


@pytest.fixture(scope="module")
def hybrid() -> Backbone:
    return backbone_of(tiny_model("qwen3_5", layers=2, layer_types=KINDS))


def too_much(what: str) -> Batch:
    """A batch of at most 80 tokens that has too much of something for SIZES."""
    forest = Forest()
    state = random_ids(2, 1)
    if what == "tokens":
        forest.read(forest.add([random_ids(73)]), [1, 2])
    elif what == "segments":
        for n in range(21):
            forest.read(forest.add([random_ids(2, n)]), [1])
    elif what == "reads":
        for n in range(25):
            forest.read(forest.add([state]), [n])
    elif what == "labels":
        for _ in range(2):
            forest.read(forest.add([state]), range(217))
    elif what == "waves":
        tree: list[tuple[int, ...]] = []
        for n in range(4):
            forest.read(forest.add([*tree, random_ids(2, 50 + n)]), [1])
            tree.append(random_ids(2, n))
            forest.read(forest.add(tree), [2])
    else:
        asked = [Placed((1, 2), 9, 2 * n, ((0, 0),) * 4) for n in range(17)]
        return pack(asked, [Reading(0, 1, [3], [0.0])], 34, 2)
    return forest.batch()


@pytest.mark.parametrize("what", ["tokens", "segments", "reads", "labels", "waves", "ancestors"])
def test_what_does_not_fit_runs_eagerly(hybrid: Backbone, what: str) -> None:
    forward = ready(hybrid)
    batch = too_much(what)
    found = forward.run(batch, legal_mass=True)
    same(found, plain(hybrid, batch))
    assert forward.eager == {f"more {what} than the largest bucket takes": 1}
    assert forward.replayed == {}


def test_waves_are_no_matter_without_recurrence() -> None:
    forward = ready(backbone_of(tiny_model("qwen3")))
    with kernels("reference"):
        forward.run(too_much("waves"))
    assert forward.eager == {}


def test_the_smallest_bucket_with_room_is_taken(hybrid: Backbone) -> None:
    """A few tokens with many labels take the bucket that has them."""
    forward = ready(hybrid)
    forest = Forest()
    for n in range(2):
        forest.read(forest.add([random_ids(3, n)]), range(190))
    with kernels("reference"):
        forward.run(forest.batch())
    assert forward.replayed == {16: 1}
    forest.read(forest.add([random_ids(3, 9)]), range(21))
    with kernels("reference"):
        forward.run(forest.batch())
    assert forward.replayed == {16: 1, 48: 1}


def test_slots_that_padding_needs_are_not_given_away(hybrid: Backbone) -> None:
    pools = pools_for(hybrid)
    forward = ready(hybrid, pools=pools)
    state, _ = warm(pools)
    late = pack([Placed(STATE, 0, 34)], [Reading(0, 0, [0, 1], [0.0, 0.0])], 64, 4)
    same(forward.run(late), plain(hybrid, late, pools_for(hybrid)))
    assert forward.eager == {"the batch uses the last KV slot, which is the place for padding": 1}
    cold = ready(hybrid)
    foreign = pack([Placed((1, 2), 0, 300)], [Reading(0, 0, [0], [0.0])], 302, 2)
    cold.run(foreign)
    assert cold.eager == {"more slots than the pools have": 1}
    assert state.kv_slots == 63


def test_graphs_of_replaced_pools_are_dropped(hybrid: Backbone) -> None:
    pools = pools_for(hybrid)
    forward = ready(hybrid, pools=pools, buckets=(32,))
    state, asked = warm(pools)
    with kernels("reference"):
        forward.run(state)
        pools.grow(96, 6)
        found = [forward.run(asked)]
        assert forward.eager == {"the pools were replaced since the warm-up": 1}
        forward.warmup()
        found.append(forward.run(asked))
    assert forward.replayed == {32: 2}
    same(found[1], found[0])
    trash = [slot.static.batch.slots[-1].item() for slot in forward._ready.values()]
    assert trash == [95]


def test_warming_up_is_bounded_and_reported(
    hybrid: Backbone, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[int, int, int]] = []

    def progress(done: int, of: int, capture: Capture) -> None:
        seen.append((done, of, capture.bucket.tokens))

    forward = CapturedForward(hybrid, buckets=SIZES, capture=False)
    made = forward.warmup(count=1, progress=progress)
    assert seen == [(1, 3, 72), (2, 3, 48), (3, 3, 16)]
    assert [bool(c.problem) for c in made] == [False, True, True]
    assert made[1].problem == "not captured: the warm-up was for 1"
    with kernels("reference"):  # the largest serves all
        forward.run(forest_of(random.Random(1), 5))
    assert forward.replayed == {72: 1}
    clock = iter([0.0, 1.0, 1.0, 2.0, 31.0])
    monkeypatch.setattr(captured.time, "perf_counter", lambda: next(clock))
    made = forward.warmup(seconds=30.0)
    assert [c.bucket.tokens for c in made] == [48, 16]
    assert [c.problem for c in made] == ["", "not captured: the warm-up's time was spent"]
    told = json.loads(json.dumps(forward.explain()))
    assert told["mode"] == "static"
    assert told["buckets"]["16"] == "not captured: the warm-up's time was spent"
    assert told["runs"] == {"72": 1}


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (torch.OutOfMemoryError("CUDA out of memory. Tried\nmuch"), "no room: CUDA out of memory."),
        (RuntimeError("operation not permitted"), "not captured: RuntimeError: operation"),
    ],
)
def test_a_bucket_that_fails_hurts_nobody(
    hybrid: Backbone, monkeypatch: pytest.MonkeyPatch, error: Exception, told: str
) -> None:
    class Failing(static_batch.StaticBatch):
        def write(self, batch: Batch | None) -> None:
            if self.bucket.tokens > 16:
                try:
                    raise error
                finally:
                    if "memory" in str(error):
                        raise RuntimeError("captures underway")  # as the end of a capture may
            super().write(batch)

    monkeypatch.setattr(captured, "StaticBatch", Failing)
    forward = ready(hybrid)
    assert [c.problem.startswith(told) for c in forward.captures.values()] == [True, True, False]
    assert all("\n" not in c.problem for c in forward.captures.values())
    dice = random.Random(2)
    small, large = forest_of(dice, 8), forest_of(dice, 40)
    with kernels("reference"):
        found = forward.run(small), forward.run(large)
    for one, batch in zip(found, (small, large), strict=True):
        same(one, plain(hybrid, batch))
    assert forward.replayed == {16: 1}
    assert forward.eager == {"more tokens than the largest bucket takes": 1}


def test_without_a_gpu_the_reason_is_told(hybrid: Backbone) -> None:
    forward = CapturedForward(hybrid)
    made = forward.warmup()
    assert {c.problem for c in made} == {"cpu tensors"}
    assert len(made) == len(TOKENS)
    batch = forest_of(random.Random(3), 30)
    same(forward.run(batch), plain(hybrid, batch))
    assert forward.eager == {"cpu tensors": 1}
    told = forward.explain()
    assert (told["mode"], told["reason"]) == ("eager", "cpu tensors")


def test_before_warming_up_everything_is_eager(hybrid: Backbone) -> None:
    forward = CapturedForward(hybrid, buckets=SIZES, capture=False)
    batch = forest_of(random.Random(3), 30)
    same(forward.run(batch), plain(hybrid, batch))
    assert forward.eager == {"nothing is captured": 1}


def test_why_a_gpu_may_not_do(hybrid: Backbone, monkeypatch: pytest.MonkeyPatch) -> None:
    """Too old, or an operator that was forced to look at the batch on the host."""
    forward = CapturedForward(hybrid)
    monkeypatch.setattr(CapturedForward, "device", torch.device("cuda"))
    monkeypatch.setattr(triton_support, "_capability", lambda: (7, 5))
    assert forward.problem == "compute capability 7.5; the kernels need 8.0"
    monkeypatch.setattr(triton_support, "_capability", lambda: (9, 0))
    monkeypatch.setattr(captured, "TREE", ("unpack",))
    with torch.inference_mode():
        assert forward.problem == ""
        with dispatch.use("reference", "unpack"):
            told = forward.problem
    assert told == "unpack runs as 'reference', which looks at the batch on the host"
    monkeypatch.setenv("READOFF_KERNELS", "unpack=nothing")
    assert forward.problem.startswith("unpack has no implementation 'nothing'")


class PretendGraph:
    """Stands in for a CUDA graph: a replay runs the same steps again, into the same outputs."""

    def __init__(self) -> None:
        self.forward: CapturedForward | None = None
        self.replays = 0

    def replay(self) -> None:
        self.replays += 1
        assert self.forward is not None
        for slot in self.forward._ready.values():
            if slot.graph is self:
                assert slot.hidden is not None
                assert slot.out is not None
                for kept, made in zip(
                    (slot.hidden, slot.out), self.forward._forward(slot.static), strict=True
                ):
                    kept.copy_(made)


class PretendStream:
    """Waits for nothing: on a CPU everything is done when it returns."""

    def __init__(self, device: torch.device | None = None) -> None: ...

    def wait_stream(self, other: PretendStream) -> None: ...

    def synchronize(self) -> None: ...


def test_capturing_as_far_as_it_goes_without_a_gpu(
    hybrid: Backbone, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The steps around the graphs, with pretended ones: what torch does in them is not tested."""
    entered: list[dict[str, Any]] = []
    signature = inspect.signature(torch.cuda.graph.__init__)

    @contextmanager
    def graph(*args: Any, **options: Any) -> Iterator[None]:
        entered.append(dict(signature.bind(None, *args, **options).arguments))
        entered[-1]["cuda_graph"].forward = forward
        yield

    current, empty = PretendStream(), torch.empty
    monkeypatch.setattr(torch.cuda, "Stream", PretendStream)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: current)
    monkeypatch.setattr(torch.cuda, "stream", lambda stream: nullcontext())
    monkeypatch.setattr(torch.cuda, "graph_pool_handle", lambda: (0, 7))
    monkeypatch.setattr(torch.cuda, "synchronize", lambda device: None)
    monkeypatch.setattr(torch.cuda, "CUDAGraph", PretendGraph)
    monkeypatch.setattr(torch.cuda, "graph", graph)
    monkeypatch.setattr(torch, "empty", lambda *a, pin_memory=False, **k: empty(*a, **k))
    monkeypatch.setattr(CapturedForward, "problem", "")
    forward = CapturedForward(hybrid, buckets=(8, 24))
    dice = random.Random(8)
    with kernels("reference"), dispatch.use("triton", "label_readout"):
        assert [c.problem for c in forward.warmup()] == ["", ""]
        for count in (20, 3, 8):
            batch = forest_of(dice, count)
            same(forward.run(batch, legal_mass=True), plain(hybrid, batch))
        launch = forward.launcher(batch)
        assert launch is not None
        launch()
    assert forward.replayed == {24: 1, 8: 2}
    assert forward.explain()["mode"] == "captured"
    graphs = [slot.graph for slot in forward._ready.values()]
    assert [graph.replays for graph in graphs if isinstance(graph, PretendGraph)] == [2, 4]
    assert [e["pool"] for e in entered] == [(0, 7), (0, 7)]
    assert entered[0]["stream"] is entered[1]["stream"]
