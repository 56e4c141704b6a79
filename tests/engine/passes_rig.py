"""`Rig`: a tiny backbone, a cache and `Passes`, without threads: every pass is looked at."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from readoff.engine.backbones.decoder import Backbone
from readoff.engine.batch import Batch, Readout
from readoff.engine.job import Group, Job, Reads
from readoff.engine.passes import Passes
from readoff.engine.plan import Line
from readoff.engine.pools import Pools
from readoff.engine.prefix_cache import Ids, PrefixCache
from readoff.engine.radix_cache import RadixCache
from readoff.engine.storage import Storage
from tests import models

from .backbones.build import backbone_of, random_ids

LABELS = tuple(range(40, 52))
PLENTY = 64 << 20
KINDS: tuple[models.Architecture, ...] = ("qwen2", "qwen3_5")


@functools.cache
def backbone(kind: models.Architecture) -> Backbone:
    """Two dense layers, or a hybrid's four."""
    layers = 4 if kind == "qwen3_5" else 2
    return backbone_of(models.tiny_model(kind, layers=layers, max_position_embeddings=8192))


def line(*pieces: Ids, leaf: Ids = ()) -> Line:
    """A prompt that reads `LABELS` after its leaf."""
    if not leaf:
        return Line(pieces)
    return Line(pieces, leaf, LABELS, (0.0,) * len(LABELS))


def ids(length: int, seed: int = 0) -> Ids:
    """Random token ids."""
    return random_ids(length, seed)


class Rig:
    """Jobs go in, probabilities come out; after every pass the cache's integrity is checked.

    `fault(batch)` is called at the start of every pass, and may raise.
    """

    def __init__(
        self,
        kind: models.Architecture,
        budget: int = PLENTY,
        make: Callable[[Storage], PrefixCache] = RadixCache,
        *,
        step_tokens: int = 4096,
        exact: bool = False,
    ) -> None:
        self.backbone = backbone(kind)
        config = self.backbone.config
        self.cache: PrefixCache | None = None
        if budget:
            storage = Storage(config, torch.float32, torch.device("cpu"), budget)
            self.cache = make(storage)
        self.fault: Callable[[Batch], None] = lambda batch: None
        self.sizes: list[int] = []
        self.passes = Passes(
            self._run, self.cache, self._setting, step_tokens=step_tokens, exact=exact
        )

    @property
    def kept(self) -> PrefixCache:
        assert self.cache is not None
        return self.cache

    def job(self, *lines: Line) -> Job:
        return Job(list(lines), Group(), lambda job: [_answer(reads) for reads in job.reads])

    def step(self, jobs: Sequence[Job]) -> list[tuple[Job, Any]]:
        """One pass, and what the scheduler would do after it."""
        outcomes = self.passes.step(jobs)
        for job, _ in outcomes:
            self.passes.let_go(job)
        if self.cache is not None:
            self.cache.check_integrity()
            assert not self.cache.pending
        return outcomes

    def run(self, *jobs: Job) -> dict[Job, Any]:
        """Pass after pass until every job is over: its probabilities, or its exception."""
        waiting, over = list(jobs), dict[Job, Any]()
        for _ in range(10_000):
            if not waiting:
                return over
            over |= dict(self.step(waiting))
            waiting = [job for job in waiting if job not in over]
        raise AssertionError("passes that get nowhere")

    def ask(self, *lines: Line) -> list[list[float]]:
        """The probabilities of one job's lines."""
        job = self.job(*lines)
        outcome = self.run(job)[job]
        if isinstance(outcome, BaseException):
            raise outcome
        found: list[list[float]] = outcome
        return found

    def computed(self, *lines: Line) -> int:
        """How many tokens asking `lines` computes."""
        before = self.passes.computed
        self.ask(*lines)
        return self.passes.computed - before

    def check_clean(self) -> None:
        """Nobody holds anything, and without its nodes the cache holds nothing."""
        cache = self.kept
        assert all(node.pins == 0 for node in cache.nodes())
        assert not cache._pinned
        cache.clear()
        assert cache.storage.tokens.used == 0
        assert cache.storage.states.used == 0
        assert cache.nbytes == 0

    def _run(self, batch: Batch, pools: Pools | None, legal_mass: bool) -> Readout:
        self.sizes.append(len(batch.tokens))
        self.fault(batch)
        return self.backbone.readout(self.backbone(batch, pools), batch, legal_mass)

    @contextmanager
    def _setting(self, job: Job) -> Iterator[None]:
        yield


def _answer(reads: Reads) -> list[float]:
    return reads.probabilities


@functools.cache
def cold(kind: models.Architecture, one: Line) -> list[float]:
    """The probabilities of a prompt that runs alone, without a cache."""
    [found] = Rig(kind, 0).ask(one)
    return found


def gap(found: Sequence[float], wanted: Sequence[float]) -> float:
    """The largest difference."""
    assert len(found) == len(wanted)
    return max((abs(a - b) for a, b in zip(found, wanted, strict=True)), default=0.0)
