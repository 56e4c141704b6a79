"""The correctness gate: every kernel, then the whole captured forward, against fp32 references.

No speed is told where it is red.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from typing import Any

import torch

from readoff.bench.gpu.models import Shape, load
from readoff.bench.gpu.recording import Call, Recorder, copied
from readoff.bench.gpu.runner import Runner
from readoff.engine.backbones.decoder import Backbone
from readoff.engine.batch import Batch, Readout, Runs
from readoff.engine.static_batch import StaticBatch
from readoff.kernels import dispatch
from readoff.kernels.dispatch import OPS, Site
from readoff.kernels.unpack import unpack

FP32_KERNEL = 5e-5
"""Relative, root mean square: another order of summation, and the recurrence in chunks."""
NARROW_KERNEL = 1e-2
"""The same for bf16: its rounding is 1.7e-3, products take rounded factors."""
FP32_P = 1e-5 + 1e-4
"""As the gate between two implementations on a CPU: 1e-5, and 1e-4 for another order of sums."""
FACTOR = 1.5
"""bf16 may be this many times as far from fp32 as plain torch in bf16 is, in the same run."""
CLOSEST = 1e-3
"""Relative distance of logits below which bf16 isn't asked for more."""
FP8_P, FP8_AGREEMENT = 0.15, 0.9
"""FP8 against bf16 on random weights, which have no margins: the worst |Δp|, and how many likeliest
labels stay the same (near ties, closer than the Δp allowed, don't count)."""


@dataclass(frozen=True)
class Check:
    """One comparison: `value` must not exceed `bound` (NaN does)."""

    name: str
    value: float
    bound: float
    note: str = ""

    @property
    def ok(self) -> bool:
        """Whether it is within the bound."""
        return self.value <= self.bound

    def told(self) -> dict[str, Any]:
        """As JSON values."""
        return asdict(self) | {"ok": self.ok}


def kernels(backbone: Backbone, batch: Batch) -> Iterator[Check]:
    """Every operator at the arguments it gets in a pass over `batch` with this model: the chosen
    implementation against the reference on the same numbers in fp32."""
    recorder = Recorder()
    moved = batch.to(backbone.embedding.device)
    with torch.inference_mode():
        with recorder.recording():
            backbone.readout(backbone(moved), moved, legal_mass=True)
        for call in recorder.calls.values():
            yield _kernel(call)


def _kernel(call: Call) -> Check:
    dtype = next(a.dtype for a in call.args if isinstance(a, torch.Tensor))
    sizes = [list(a.shape) for a in call.args if isinstance(a, torch.Tensor)][:2]
    word = str(dtype).removeprefix("torch.")
    name = f"{call.op} {word} {sizes}"
    found = _results(call, OPS[call.op].implementations[call.implementation].function, widen=False)
    wanted = _results(call, OPS[call.op].implementations["reference"].function, widen=True)
    distances = [_distance(a, b) for a, b in zip(found, wanted, strict=True)]
    # Of torch, since the largest of what holds NaN is NaN there.
    value = torch.tensor([0.0, *distances], dtype=torch.float64).max().item()
    bound = FP32_KERNEL if dtype == torch.float32 else NARROW_KERNEL
    return Check(name, value, bound, call.implementation)


def _results(call: Call, run: Callable[..., Any], widen: bool) -> list[torch.Tensor]:
    """What a call returns and what it writes into its arguments, floats only. Of what it writes,
    the rest of a pool is unwritten memory: NaN there, then zeros where it stays so."""
    before = [_fresh(arg, widen) for arg in call.args]
    written = [n for n, arg in enumerate(call.args) if _mutable(arg)]
    after = [copied(arg) if n in written else arg for n, arg in enumerate(before)]
    out = run(*after)
    returned = list(out) if isinstance(out, tuple) else [out]
    results = [t for t in returned if isinstance(t, torch.Tensor) and t.is_floating_point()]
    for old, new in ((before[n], after[n]) for n in written):
        changed = ~((old == new) | (old.isnan() & new.isnan()))
        results.append(torch.where(changed, new, 0.0))
    return [result.float() for result in results]


def _mutable(arg: Any) -> bool:
    weight = isinstance(arg, torch.nn.Parameter)
    return isinstance(arg, torch.Tensor) and arg.is_floating_point() and not weight


def _fresh(arg: Any, widen: bool) -> Any:
    narrow = isinstance(arg, torch.Tensor) and arg.dtype in (torch.bfloat16, torch.float16)
    return arg.float() if widen and narrow else arg


def _distance(found: torch.Tensor, wanted: torch.Tensor) -> float:
    """rms(found - wanted) / rms(wanted); infinite where shapes differ, NaN where something is."""
    if found.shape != wanted.shape:
        return float("inf")
    if not wanted.numel():
        return 0.0
    scale = float(wanted.double().square().mean().sqrt())
    return float((found.double() - wanted.double()).square().mean().sqrt()) / max(scale, 1e-30)


@dataclass(frozen=True)
class Way:
    """A way to the readout of `batch`, which is a cold pass."""

    name: str
    batch: Batch
    run: Callable[[], Readout]


def forward(
    shape: Shape, runner: Runner, ways: Sequence[Way], ours_in_fp32: bool
) -> Iterator[Check]:
    """Every way against the fp32 reference: no further from it than plain torch in the same
    dtype, with a margin. `ours_in_fp32`: fp32 itself through our kernels, too."""
    narrow = runner.dtype != torch.float32
    exact = load(shape.config, torch.float32, runner.device)
    seen: dict[int, tuple[Readout, float]] = {}
    for way in ways:
        if id(way.batch) not in seen:
            with dispatch.use("reference"):
                wanted = _plain(exact, way.batch)
            if ours_in_fp32:
                name = f"fp32 forward, {len(way.batch.tokens)} tokens, Δp"
                yield Check(name, _moved(_plain(exact, way.batch), wanted), FP32_P)
            with _library():
                plain = _distance(_plain(runner.backbone, way.batch).logits, wanted.logits)
            seen[id(way.batch)] = wanted, max(FACTOR * plain, CLOSEST) if narrow else FP32_KERNEL
        wanted, bound = seen[id(way.batch)]
        found = way.run()
        value = _distance(found.logits, wanted.logits)
        yield Check(f"{way.name}, logits", value, bound, f"Δp {_moved(found, wanted):.2g}")


def captured(runner: Runner, batch: Batch) -> Iterator[Check]:
    """That graphs ran, that they repeat themselves, and that their metadata is exact."""
    with runner.padded():
        first, second = runner.cold.run(batch), runner.cold.run(batch)
    yield Check("captured twice, Δp", _moved(second, first), 0.0)
    for name, forward in (("cold", runner.cold), ("warm", runner.warm)):
        problems = [c.problem for c in forward.captures.values() if c.problem]
        eager = float(sum(forward.eager.values()))
        yield Check(f"{name} passes that ran eagerly", eager, 0.0, "; ".join(forward.eager))
        yield Check(f"{name} buckets not captured", len(problems), 0.0, "; ".join(problems)[:200])
    bucket = next(b for b in runner.cold.buckets if not b.misfit(batch, True))
    static = StaticBatch(bucket, len(batch.tokens) + 1, bucket.segments + 1, runner.device)
    static.write(batch)
    made = []
    for name in dict.fromkeys(
        (unpack.choose(Site(runner.device.type, torch.int32)).name, "reference")
    ):
        with unpack.use(name):
            static.unpack()
        made.append([tensor.clone() for tensor in _tensors(static.batch)])
    wrong = sum(int((a != b).sum()) for a, b in zip(made[0], made[-1], strict=True))
    yield Check("unpack, entries that differ", wrong, 0.0)


def _tensors(batch: Batch) -> Iterator[torch.Tensor]:
    for value in vars(batch).values():
        if isinstance(value, Runs):
            yield from vars(value).values()
        elif isinstance(value, torch.Tensor):
            yield value


def fp8(found: list[Readout], wanted: list[Readout], labels: int) -> Iterator[Check]:
    """Quantised readouts against those of bf16, `labels` a question."""
    p, q = (torch.cat([r.probabilities for r in x]).view(-1, labels) for x in (found, wanted))
    yield Check("fp8 against bf16, Δp", float((p - q).abs().max()), FP8_P)
    best = q.gather(1, p.argmax(1, keepdim=True))[:, 0]
    agree = float((q.max(1).values - best <= FP8_P / 2).float().mean())
    yield Check("fp8 against bf16, other likeliest labels", 1.0 - agree, 1.0 - FP8_AGREEMENT)


def _moved(found: Readout, wanted: Readout) -> float:
    return float((found.probabilities - wanted.probabilities).abs().max())


def _plain(backbone: Backbone, batch: Batch) -> Readout:
    moved = batch.to(backbone.embedding.device)
    with torch.inference_mode():
        read = backbone.readout(backbone(moved), moved)
    return Readout(read.logits.cpu(), read.probabilities.cpu(), None)


@contextmanager
def _library() -> Iterator[None]:
    """Plain torch on any device, nothing of ours fused."""
    with ExitStack() as stack:
        for op in OPS.values():
            has = (n for n in ("torch", "plain", "reference") if n in op.implementations)
            stack.enter_context(op.use(next(has)))
        yield
