"""`Runner`: one model on one device, run eagerly and captured, cold and on kept pools."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from readoff.bench.gpu.cases import LABELS, QUESTIONS, STATES, Case, Cases
from readoff.engine.backbones.decoder import Backbone
from readoff.engine.batch import Batch, Readout
from readoff.engine.buckets import TOKENS, Bucket
from readoff.engine.captured import TREE, CapturedForward
from readoff.engine.pools import KeptPools
from readoff.kernels import dispatch


def decoding(lines: int) -> Bucket:
    """A bucket for `lines` answers that grow by one token at a time: nothing in it is padding."""
    return Bucket(lines, lines, lines, LABELS * lines, lines, lines, waves=1)


class Runner:
    """Buckets are those of the library that the cases need, and two for decoding.

    Without CUDA nothing is captured: the fixed-size path then runs step by step, with the
    reference implementations of the operators that meet its padding.
    """

    def __init__(self, backbone: Backbone, cases: Cases, measured: Iterable[Case]) -> None:
        self.backbone, self.cases = backbone, cases
        head = backbone.embedding
        self.device, self.dtype = head.device, head.dtype
        self.cuda = self.device.type == "cuda"
        self.pools = KeptPools(backbone.config, cases.kv_slots + 1, STATES, self.dtype, self.device)
        prompts = [cases.tree(QUESTIONS), cases.single(cases.size(512)).passes[0]]
        cold, warm = [cases.gate()], prompts
        for case in measured:
            (warm if case.before else cold).extend(case.passes)
        steps = [decoding(1), decoding(QUESTIONS)]
        self.cold = CapturedForward(backbone, None, _buckets(cold), capture=self.cuda)
        self.warm = CapturedForward(
            backbone, self.pools, [*_buckets(warm), *steps], capture=self.cuda
        )
        self.eager_cold = CapturedForward(backbone, None, ())
        self.eager_warm = CapturedForward(backbone, self.pools, ())

    def warmup(self, seconds: float) -> list[dict[str, Any]]:
        """Capture every bucket; what became of each, as JSON values."""
        told = []
        for name, forward in (("cold", self.cold), ("warm", self.warm)):
            with self.padded():
                made = forward.warmup(seconds)
            told += [
                {
                    "pools": name,
                    "tokens": c.bucket.tokens,
                    "segments": c.bucket.segments,
                    "ms": c.seconds * 1e3,
                    "MiB": c.nbytes / 2**20,
                    "problem": c.problem,
                }
                for c in made
            ]
        return told

    def forward(self, case: Case, captured: bool) -> CapturedForward:
        """What runs the passes of `case`."""
        if captured:
            return self.warm if case.before else self.cold
        return self.eager_warm if case.before else self.eager_cold

    def fill(self, case: Case) -> None:
        """Put into the kept pools what `case` goes on from."""
        if case.before is not None:
            self.eager_warm.run(case.before)

    def run(self, case: Case, captured: bool) -> list[Readout]:
        """All passes, each result on the host."""
        forward = self.forward(case, captured)
        with self.padded() if captured else contextlib.nullcontext():
            return [forward.run(batch) for batch in case.passes]

    def was_captured(self, batches: Iterable[Batch], forward: CapturedForward) -> bool:
        """Whether every batch has a bucket."""
        return all(forward.launcher(batch) is not None for batch in batches)

    @contextmanager
    def padded(self) -> Iterator[None]:
        """Implementations that know padding; on CUDA the chosen ones do."""
        with contextlib.nullcontext() if self.cuda else dispatch.use("reference", *TREE):
            yield


def _buckets(batches: Iterable[Batch]) -> list[Bucket]:
    """For each batch the smallest of the library's buckets that takes it, where there is one."""
    usual = [Bucket.of(tokens) for tokens in TOKENS]
    fitting = [next((b for b in usual if not b.misfit(batch, True)), None) for batch in batches]
    return list(dict.fromkeys(bucket for bucket in fitting if bucket is not None))
