"""`CapturedForward`: the whole forward as one CUDA graph a token bucket.

A small model is bound by its launches: eager, some 300 kernels cost the host 15 to 25 ms whatever
they compute. Captured, a pass is one copy of packed metadata, one graph (metadata, embedding,
layers, readout) and one copy back.

A graph replays the same kernels on the same addresses, so everything has a place and a size that
don't change: `StaticBatch` for the metadata, pools that live as long as this object, buckets of
token counts with the rest padded by sentinels. What doesn't fit a bucket runs eagerly, and so does
everything where graphs can't be had; `explain` tells how often and why.

With `capture=False` the same buffers, padding and kernels run without a graph, on any device. That
is how this is tested; **capturing itself needs a GPU, and the test suite doesn't have one.**
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch

from readoff.engine.backbones.decoder import Backbone
from readoff.engine.batch import Batch, Readout
from readoff.engine.buckets import TOKENS, Bucket, buckets_of
from readoff.engine.capture import Capture
from readoff.engine.kernel_folder import keep_kernels, kernel_folder
from readoff.engine.pools import KeptPools
from readoff.engine.static_batch import ScratchPools, StaticBatch
from readoff.kernels.dispatch import OPS, NoImplementationError, Site
from readoff.kernels.triton_support import served_by_triton

WARMUP_SECONDS = 60.0

TREE = ("causal_conv", "gated_delta", "label_readout", "tree_attention", "unpack")
"""Operators whose other implementations look at the batch on the host."""


@dataclass(frozen=True)
class _Ready:
    """A bucket that can run: its buffers and the outputs that every run writes again.

    `hidden`: [reads, H]; `out`: logits and probabilities, [2, labels] (`host`: pinned).
    """

    static: StaticBatch
    graph: torch.cuda.CUDAGraph | None = None
    hidden: torch.Tensor | None = None
    out: torch.Tensor | None = None
    host: torch.Tensor | None = None


class CapturedForward:
    """Runs batches through `backbone`, captured where it can.

    Without `pools` it is for cold passes (`Forest.batch`), in scratch memory of its own. With
    pools, batches continue what they hold; the last KV slot is the place for padding, so a batch
    may use `pools.kv_slots - 1` slots at most (`Batch.kv_slots` says how many it uses).

    One run at a time; a second thread waits. The weights must stay where they are.
    """

    def __init__(
        self,
        backbone: Backbone,
        pools: KeptPools | None = None,
        buckets: Iterable[int | Bucket] = TOKENS,
        *,
        capture: bool = True,
    ) -> None:
        self.backbone = backbone
        self.buckets = buckets_of(buckets)
        self.captures: dict[Bucket, Capture] = {}
        self.replayed: Counter[int] = Counter()
        """Captured runs by the tokens of their bucket."""
        self.eager: Counter[str] = Counter()
        """Eager runs by reason."""
        self._given = pools
        self._pools: KeptPools | ScratchPools | None = pools
        self._capture = capture
        self._ready: dict[Bucket, _Ready] = {}
        self._memory: Any = None
        self._stream: torch.cuda.Stream | None = None
        self._lock = threading.Lock()
        self._generation = pools.generation if pools is not None else 0
        self._nothing = "nothing is captured"

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return self.backbone.embedding.device

    @property
    def problem(self) -> str:
        """Why nothing can be captured here, or ""."""
        if not self._capture:
            return ""
        site = Site(self.device.type, self.backbone.embedding.dtype)
        served, why_not = served_by_triton(site)
        if not served:
            return why_not
        for name in TREE:
            try:
                chosen = OPS[name].choose(site).name
            except NoImplementationError as error:
                return str(error)
            if chosen != "triton":
                return f"{name} runs as {chosen!r}, which looks at the batch on the host"
        return ""

    def warmup(
        self,
        seconds: float = WARMUP_SECONDS,
        count: int | None = None,
        progress: Callable[[int, int, Capture], None] = lambda done, of, capture: None,
    ) -> list[Capture]:
        """Capture what isn't captured yet, largest first, so that a cut-off warm-up serves all.

        No bucket is begun once `seconds` have passed, and at most `count` are captured. Compiling
        is most of it the first time; compiled kernels stay in `kernel_folder`. What goes wrong
        with a bucket is its problem in the result; smaller ones are still tried.
        `progress(done, of, capture)` is called after each bucket.
        """
        problem = self.problem
        keep_kernels()
        with self._lock:
            self._drop_stale()
        start = time.perf_counter()
        made = []
        todo = [b for b in reversed(self.buckets) if b not in self._ready]
        for number, bucket in enumerate(todo):
            if problem:
                capture = Capture(bucket, problem=problem)
            elif count is not None and number >= count:
                capture = Capture(bucket, problem=f"not captured: the warm-up was for {count}")
            elif time.perf_counter() - start > seconds:
                capture = Capture(bucket, problem="not captured: the warm-up's time was spent")
            else:
                with self._lock, torch.inference_mode():
                    capture = self._prepare(bucket)
            self.captures[bucket] = capture
            made.append(capture)
            progress(number + 1, len(todo), capture)
        return made

    def run(self, batch: Batch, legal_mass: bool = False) -> Readout:
        """One pass over a batch on the host; the readout comes back on the host.

        The legal mass reads the whole head, outside the graph.
        """
        with self._lock, torch.inference_mode():
            ready, reason = self._choose(batch)
            if ready is None:
                self.eager[reason] += 1
                return self._run_eagerly(batch, legal_mass)
            self.replayed[ready.static.bucket.tokens] += 1
            ready.static.write(batch)
            hidden, out = self._launch(ready)
            mass = None
            if legal_mass:
                on_device = batch.to(self.device)
                read = self.backbone.readout(hidden[: len(batch.rows)], on_device, legal_mass=True)
                assert read.legal_mass is not None
                mass = read.legal_mass.cpu()
            if ready.host is not None:
                ready.host.copy_(out, non_blocking=True)
                torch.cuda.current_stream(self.device).synchronize()
                out = ready.host
            logits, probabilities = out[:, : len(batch.label_ids)].clone()
            return Readout(logits, probabilities, mass)

    def launcher(self, batch: Batch) -> Callable[[], None] | None:
        """A function that starts the pass over `batch` again at each call and waits for nothing,
        for timing it; None where the batch would run eagerly. Valid until the next `run`."""
        with self._lock, torch.inference_mode():
            ready, _ = self._choose(batch)
            if ready is None:
                return None
            ready.static.write(batch)

        def launch() -> None:
            with torch.inference_mode():
                self._launch(ready)

        return launch

    def explain(self) -> dict[str, Any]:
        """How it runs, as JSON values: buckets, what was captured, and why passes ran eagerly."""
        return {
            "mode": "eager" if self.problem else "captured" if self._capture else "static",
            "reason": self.problem,
            "buckets": {str(b.tokens): str(self.captures.get(b, "not yet")) for b in self.buckets},
            "runs": {f"{tokens}": n for tokens, n in sorted(self.replayed.items())},
            "eager": dict(self.eager),
            "kernels": str(kernel_folder()),
        }

    def _choose(self, batch: Batch) -> tuple[_Ready | None, str]:
        """The smallest ready bucket that takes `batch`, or None and the reason."""
        if self._given is not None and batch.kv_slots > self._given.kv_slots - 1:
            return None, "the batch uses the last KV slot, which is the place for padding"
        self._drop_stale()
        pools = self._pools
        if not self._ready or pools is None:
            return None, self.problem or self._nothing
        hybrid, misfit = self.backbone.config.is_hybrid, ""
        for bucket in self.buckets:
            if bucket in self._ready:
                misfit = bucket.misfit(batch, hybrid)
                if not misfit:
                    break
        if misfit:
            return None, f"more {misfit} than the largest bucket takes"
        if batch.kv_slots > pools.kv_slots - 1 or batch.state_slots > pools.state_slots:
            return None, "more slots than the pools have"
        return self._ready[bucket], ""

    def _drop_stale(self) -> None:
        """Forget graphs that point at memory which the given pools no longer use."""
        if self._given is not None and self._generation != self._given.generation:
            self._generation = self._given.generation
            if self._ready:
                self._nothing = "the pools were replaced since the warm-up"
                self._ready.clear()
                self.captures.clear()
                self._memory = None

    def _prepare(self, bucket: Bucket) -> Capture:
        """Buffers, and where they are wanted a trial run and a graph, for one bucket."""
        start, free = time.perf_counter(), self._free()
        # Whatever it is (no memory, a kernel that doesn't compile, a call that can't be captured):
        # there is another way to run, and the reason is told.
        try:
            ready = self._build(bucket)
        except Exception as error:
            self._memory = None  # a pool whose capture was broken off is not used again
            return Capture.failed(bucket, error)
        self._ready[bucket] = ready
        return Capture(bucket, time.perf_counter() - start, max(0, free - self._free()))

    def _build(self, bucket: Bucket) -> _Ready:
        if self._pools is None:
            head = self.backbone.embedding
            config, largest = self.backbone.config, self.buckets[-1]
            states = max(b.segments for b in self.buckets) + 1
            self._pools = ScratchPools(config, largest.tokens + 1, states, head.dtype, head.device)
        pools = self._pools
        static = StaticBatch(bucket, pools.kv_slots, pools.state_slots, self.device)
        # Sentinels only: such a pass compiles every kernel and touches no slot but the last.
        static.write(None)
        if not self._capture:
            return _Ready(static)
        # One stream for all buckets: the library keeps a workspace for each that it has seen.
        stream = self._stream = self._stream or torch.cuda.Stream(self.device)
        stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(stream):
            self._forward(static)
        torch.cuda.current_stream(self.device).wait_stream(stream)
        self._memory = self._memory or torch.cuda.graph_pool_handle()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(
            graph, pool=self._memory, stream=stream, capture_error_mode="thread_local"
        ):
            hidden, out = self._forward(static)
        host = torch.empty(out.shape, dtype=out.dtype, pin_memory=True)
        graph.replay()
        torch.cuda.synchronize(self.device)
        return _Ready(static, graph, hidden, out, host)

    def _launch(self, ready: _Ready) -> tuple[torch.Tensor, torch.Tensor]:
        """Start the pass over what was written; see `_forward` for what it gives."""
        if ready.graph is None or ready.hidden is None or ready.out is None:
            return self._forward(ready.static)
        ready.graph.replay()
        return ready.hidden, ready.out

    def _forward(self, static: StaticBatch) -> tuple[torch.Tensor, torch.Tensor]:
        """From the message to hidden rows [reads, H], and logits and probabilities [2, labels]."""
        static.unpack()
        hidden = self.backbone(static.batch, self._pools)
        readout = self.backbone.readout(hidden, static.batch)
        return hidden, torch.stack((readout.logits, readout.probabilities))

    def _run_eagerly(self, batch: Batch, legal_mass: bool) -> Readout:
        moved = batch.to(self.device)
        readout = self.backbone.readout(self.backbone(moved, self._given), moved, legal_mass)
        mass = readout.legal_mass
        return Readout(
            readout.logits.cpu(), readout.probabilities.cpu(), None if mass is None else mass.cpu()
        )

    def _free(self) -> int:
        if self.device.type != "cuda":
            return 0
        return int(torch.cuda.mem_get_info(self.device)[0])
