"""`Worker`: the part of an engine that runs: backbone, cache, scheduler, and their one thread."""

from __future__ import annotations

import atexit
import gc
import hashlib
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import torch

from readoff.engine import prefix_file
from readoff.engine.backbones.decoder import Backbone
from readoff.engine.batch import Batch, Readout
from readoff.engine.capture import Capture
from readoff.engine.captured import CapturedForward
from readoff.engine.compute import on_compute_thread
from readoff.engine.config import ModelConfig
from readoff.engine.errors import BudgetError, ReadoffError
from readoff.engine.job import Job
from readoff.engine.parameters import EMBEDDING, HEAD, parameter_shapes
from readoff.engine.passes import Passes
from readoff.engine.pools import Pools
from readoff.engine.prefix_cache import PrefixCache
from readoff.engine.radix_cache import RadixCache
from readoff.engine.runtime import deterministic_kernels, explain_kernels, free_memory, threads
from readoff.engine.scheduler import Scheduler
from readoff.engine.serving import Serving
from readoff.engine.storage import Storage
from readoff.kernels.dispatch import Site, forced, use_all

_SHARE, _LARGEST = 8, 4 << 30
"""The cache takes one part in so many of the free memory by default, and at most so many bytes."""


R = TypeVar("R")
Progress = Callable[[int, int, Capture], None]
"""(buckets done, of how many, the last one)."""

STEP_TOKENS = 8192
"""New tokens of one pass, about."""

CACHED_CPU_STEP = 1024
"""The same on a CPU with a cache: longer passes aren't faster, and newcomers wait for them."""

_RUNNING: weakref.WeakSet[Worker] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    """No pass may run while the interpreter goes down, and what `warmup` froze is freed after all:
    libraries report at the end what wasn't."""
    for worker in list(_RUNNING):
        worker.close()
    gc.unfreeze()


class Worker:
    """Runs passes for the jobs that an engine makes. See `Serving` for the options.

    `made_of` names by digest what makes token ids of text: part of the key of saved prefixes.
    """

    def __init__(
        self,
        backbone: Backbone,
        serving: Serving,
        *,
        thread_count: int | None = None,
        name: str = "model",
        made_of: Callable[[], Mapping[str, str]] = dict,
    ) -> None:
        self.backbone = backbone
        self._made_of, self._threads = made_of, thread_count
        head = backbone.embedding
        self._device, self._dtype = head.device, head.dtype
        self._fixed = deterministic_kernels(self._device) if serving.deterministic else ()
        cache_bytes = serving.cache_bytes
        if cache_bytes is None:
            cache_bytes = min(free_memory(self._device) // _SHARE, _LARGEST)
        self.cache_bytes = cache_bytes
        self.cache: PrefixCache | None = None
        if cache_bytes:
            self.cache = RadixCache(
                Storage(
                    backbone.config,
                    self._dtype,
                    self._device,
                    cache_bytes,
                    spare=int(self._device.type == "cuda"),  # where captured passes put padding
                ),
                arithmetic(backbone.config),
                exact=serving.deterministic,
                spacing=serving.snapshot_every,
            )
            self._check_budget(self.cache.storage)
        self.captured: CapturedForward | None = None
        if self._device.type == "cuda":
            pools = self.cache.storage.pools if self.cache is not None else None
            self.captured = CapturedForward(backbone, pools)
        small = self.cache is not None and self._device.type == "cpu"
        step_tokens = serving.step_tokens or (CACHED_CPU_STEP if small else STEP_TOKENS)
        self.passes = Passes(
            self._run,
            self.cache,
            self._setting,
            step_tokens=step_tokens,
            exact=serving.deterministic,
        )
        self.scheduler = Scheduler(
            lambda jobs: self._compute(partial(self.passes.step, jobs)),
            max_queue=serving.max_queue,
            max_wait=serving.max_wait_ms / 1e3,
            name=f"readoff {name}",
            over=self.passes.let_go,
        )
        _RUNNING.add(self)

    def warmup(self, progress: Progress) -> None:
        """On a GPU: take the cache's memory once and for all, and capture the forward pass."""
        captured = self.captured
        if captured is None:
            return

        def work() -> None:
            with torch.inference_mode(), threads(self._threads), use_all(self._fixed):
                if self.cache is not None:
                    self.cache.storage.reserve()
                captured.warmup(progress=progress)

        self._between_passes(work)

    def explain(self) -> dict[str, dict[str, str]]:
        """For every operator: each implementation, and why it would or wouldn't run."""
        with use_all(self._fixed):
            return explain_kernels(Site(self._device.type, self._dtype), self.backbone.layout)

    def stats(self) -> dict[str, Any]:
        """See `Engine.stats`."""
        told: dict[str, Any] = asdict(self.scheduler.counters)
        told["waiting"] = self.scheduler.depth
        told["steps"] = self.passes.steps
        told["retries"] = self.passes.retries
        told["computed_tokens"] = self.passes.computed
        if self.cache is not None:
            storage = self.cache.storage
            told["cache"] = {
                **asdict(self.cache.counters),
                "budget_bytes": storage.budget,
                "used_bytes": storage.used_bytes,
                "held_bytes": storage.nbytes,
                "tokens": storage.tokens.used,
                "snapshots": storage.states.used,
            }
        return told

    def clear(self) -> None:
        """Drop every cached prefix that no running request needs."""
        if self.cache is not None:
            self._between_passes(self.cache.clear)

    def save(self, path: Path) -> int:
        """See `Engine.save_prefixes`."""
        cache = self._kept()
        return self._between_passes(lambda: prefix_file.save(cache, self._identity(), path))

    def load(self, path: Path) -> int:
        """See `Engine.load_prefixes`."""
        cache = self._kept()

        def work() -> int:
            with torch.inference_mode():
                return prefix_file.load(cache, self._identity(), path)

        return self._between_passes(work)

    def close(self, wait: bool = True) -> None:
        """End the thread; having waited for that, let go of the cache's memory."""
        self.scheduler.close(wait)
        if wait and self.cache is not None:
            self.cache.storage.pools.free()

    def _between_passes(self, function: Callable[[], R]) -> R:
        return self.scheduler.call(partial(self._compute, function))

    def _compute(self, function: Callable[[], R]) -> R:
        """Where passes run: on CPUs all of a process on one thread."""
        return on_compute_thread(function) if self._device.type == "cpu" else function()

    def _check_budget(self, storage: Storage) -> None:
        """Raise BudgetError for a cache that couldn't hold the shortest prompt."""
        least = storage.size(64, 3)  # 64 tokens; the zero state, the preamble's and the state's
        if storage.budget < least:
            raise BudgetError(
                f"cache_bytes={storage.budget} is less than the shortest prompt needs, {least}. "
                "Allow more, or set cache_bytes=0 to keep nothing."
            )

    def _kept(self) -> PrefixCache:
        if self.cache is None:
            raise ReadoffError("cache_bytes=0 keeps nothing: there are no prefixes.")
        return self.cache

    def _identity(self) -> dict[str, str]:
        """Everything that changes the numbers that a prefix leaves behind; where bits must be
        equal, what changes the order of sums too."""
        bits: dict[str, str] = {}
        if self._fixed:
            count = str(self._threads or torch.get_num_threads())
            bits = {"torch": torch.__version__, "device": str(self._device), "threads": count}
        return {
            **self._made_of(),
            **bits,
            "weights": prefix_file.weights_digest(self.backbone),
            "config": hashlib.sha256(repr(self.backbone.config).encode()).hexdigest(),
            "dtype": str(self._dtype),
            "kernels": ",".join(f"{op}={name}" for op, name in self._fixed),
        }

    @contextmanager
    def _setting(self, job: Job) -> Iterator[None]:
        """What is in force while a pass for jobs of this one's group runs."""
        with threads(self._threads), use_all(self._fixed), use_all(job.group.kernels):
            yield

    def _run(self, batch: Batch, pools: Pools | None, legal_mass: bool) -> Readout:
        if self.captured is not None and dict(forced()) == dict(self._fixed):
            return self.captured.run(batch, legal_mass)
        batch = batch.to(self._device)
        return self.backbone.readout(self.backbone(batch, pools), batch, legal_mass)


def arithmetic(config: ModelConfig) -> Any:
    """A function (first position, tokens) -> floating-point operations of computing them."""
    shapes = parameter_shapes(config)
    body = sum(
        rows * columns[0]
        for name, (rows, *columns) in shapes.items()
        if columns and len(columns) == 1 and name not in (EMBEDDING, HEAD)
    )
    full = config.layer_types.count("full_attention")
    per_key = 4 * full * config.num_heads * config.head_dim

    def flops(first: int, length: int) -> float:
        keys = length * first + length * (length + 1) / 2
        return 2.0 * body * length + per_key * keys

    return flops
