"""`Passes`: from waiting jobs to one forward pass, and from what it reads to finished jobs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import torch

from readoff.engine.batch import Batch, Readout
from readoff.engine.endings import error_of, finished
from readoff.engine.errors import BudgetError, ReadoffError
from readoff.engine.forest import Forest
from readoff.engine.job import Job, Reads
from readoff.engine.plan import GRID, MANY, Plan
from readoff.engine.pools import Pools
from readoff.engine.prefix_cache import Node, PrefixCache
from readoff.engine.storage import out_of_memory

Run = Callable[[Batch, Pools | None, bool], Readout]
Outcomes = list[tuple[Job, Any]]

_FEW = 8
"""Pieces of one part, where the snapshots of all that fit into a pass find no room."""
_SCANNED = 512
"""Jobs that are looked at for one pass."""


@dataclass
class _Taken:
    """What one pass does for a job: some of its lines, or (`part`) only more of a long prefix."""

    job: Job
    lines: int = 0
    computed: int = 0
    part: Node | None = None


class Passes:
    """Runs one pass at a time, of about `step_tokens` new tokens.

    Without a cache every pass is cold, and a job goes through it whole. With one, a job's lines may
    be spread over passes, and so may a prefix longer than a pass: while others wait it gets half of
    each at least. `exact`: never cut inside a piece.
    """

    def __init__(
        self,
        run: Run,
        cache: PrefixCache | None,
        setting: Callable[[Job], AbstractContextManager[None]],
        *,
        step_tokens: int,
        exact: bool = False,
    ) -> None:
        self.cache = cache
        self.step_tokens = step_tokens
        self.steps = self.retries = self.computed = 0
        self._run, self._setting, self._exact = run, setting, exact
        self._held: dict[Job, Node] = {}

    def step(self, jobs: Sequence[Job]) -> Outcomes:
        """One pass for the first of `jobs` and as many others as fit. See `Scheduler`."""
        with torch.inference_mode(), self._setting(jobs[0]):
            if self.cache is None:
                return self._cold(jobs)
            if self._is_hopeless(jobs[0]):
                return [(jobs[0], self._too_large(jobs[0]))]
            tokens, lines, pieces = self.step_tokens, MANY, MANY
            while True:
                plan, taken = self._plan(self.cache, jobs[:_SCANNED], tokens, lines, pieces)
                outcomes = self._attempt(plan, taken)
                if outcomes is not None:
                    return outcomes
                self.retries += 1
                count = sum(max(t.lines, 1) for t in taken)
                if count > 1:
                    lines = count // 2
                elif others := [job for job in self._held if job is not taken[0].job]:
                    for job in others:  # what they hold is dropped if need be, and computed anew
                        self.let_go(job)
                elif tokens > GRID and plan.tokens > GRID:
                    tokens = max(GRID, min(tokens, plan.tokens) // 2)
                elif self.cache.storage.hybrid and pieces > 1:  # each of them leaves a snapshot
                    pieces = min(pieces, 2 * _FEW) // 2
                else:
                    return [(taken[0].job, self._too_large(taken[0].job))]

    def let_go(self, job: Job) -> None:
        """Unpin what a job held on to between its passes."""
        node = self._held.pop(job, None)
        if node is not None and self.cache is not None:
            self.cache.unpin(node)

    def _attempt(self, plan: Plan, taken: list[_Taken]) -> Outcomes | None:
        """Run a plan. None where memory ran out: less may work."""
        reads: list[Reads] = []
        try:
            if plan.tokens:
                if not plan.close():
                    plan.abort()
                    return None
                mass = taken[0].job.group.legal_mass
                readout = self._run(plan.batch(), plan.cache.storage.pools, mass)
                reads = _split(readout, [len(line.labels) for line in plan.reads])
        except Exception as error:
            plan.abort()
            if out_of_memory(error):
                return None
            return [(t.job, error_of(error)) for t in taken]
        plan.commit()
        self.steps += plan.tokens > 0
        self.computed += plan.tokens
        return self._finish(taken, reads)

    def _plan(
        self, cache: PrefixCache, jobs: Sequence[Job], tokens: int, lines: int, pieces: int
    ) -> tuple[Plan, list[_Taken]]:
        """What fits of some jobs: whole lines first, for which half is free at least; then, with
        all that is left, more of prefixes that are longer than a pass, or of more new pieces."""
        plan, taken, long = Plan(cache), list[_Taken](), list[Job]()
        room = tokens
        try:
            for job in jobs:
                if ((taken or long) and plan.tokens >= room) or lines <= bool(long):
                    break
                if job.ticket.cancelled():
                    continue
                if self._is_long(plan, job, tokens, pieces):
                    if self._is_hopeless(job):
                        continue  # until it is the first
                    long.append(job)
                    room = tokens - max(GRID, tokens // 2)
                    continue
                mine = self._take(plan, job, room, lines, must=not (taken or long))
                if mine.lines:
                    taken.append(mine)
                    lines -= mine.lines
            for job in long:
                left = tokens - plan.tokens
                if lines > 0 and (left >= GRID or not taken):
                    taken.append(self._take_part(plan, job, max(left, GRID), pieces))
                    lines -= 1
        except BaseException:
            plan.abort()
            raise
        return plan, taken

    def _is_long(self, plan: Plan, job: Job, tokens: int, pieces: int) -> bool:
        """Whether the next line needs more than a pass, and not for its leaf alone."""
        line, root = job.remaining[0], plan.cache.root(job.group.kernels)
        if pieces < MANY and plan.pieces(root, line) > pieces:
            return True
        cost = plan.cost(root, line)
        return cost > tokens and cost > len(line.leaf)

    def _is_hopeless(self, job: Job) -> bool:
        """Whether a prompt is beyond the budget, whatever is dropped for it."""
        assert self.cache is not None
        storage, states = self.cache.storage, 1 + self.cache.storage.hybrid
        longest = max(line.shared + len(line.leaf) for line in job.remaining)
        return storage.size(longest, states) > storage.budget

    def _take(self, plan: Plan, job: Job, room: int, lines: int, *, must: bool) -> _Taken:
        """Put the lines of a job that fit into the plan: if it `must`, one at least."""
        root, mine = plan.cache.root(job.group.kernels), _Taken(job)
        for line in job.remaining[:lines]:
            if plan.cost(root, line) > room - plan.tokens and not (must and not mine.lines):
                break
            mine.computed += plan.add(root, line, job in self._held)
            mine.lines += 1
        return mine

    def _take_part(self, plan: Plan, job: Job, tokens: int, pieces: int) -> _Taken:
        """Put more of a long prefix into the plan."""
        root, line = plan.cache.root(job.group.kernels), job.remaining[0]
        held = job in self._held
        node, computed = plan.add_part(root, line, tokens, not self._exact, held, pieces)
        return _Taken(job, 0, computed, node)

    def _finish(self, taken: list[_Taken], reads: list[Reads]) -> Outcomes:
        assert self.cache is not None
        outcomes: Outcomes = []
        at = 0
        for mine in taken:
            job = mine.job
            job.computed += mine.computed
            for line in job.remaining[: mine.lines]:
                job.reads.append(reads[at] if line.leaf else Reads([], [], None))
                at += bool(line.leaf)
            if mine.part is not None:
                self.cache.pin(mine.part)
                self.let_go(job)
                self._held[job] = mine.part
            if len(job.reads) == len(job.lines):
                outcomes.append((job, finished(job)))
        return outcomes

    def _cold(self, jobs: Sequence[Job]) -> Outcomes:
        """A pass that leaves nothing behind. Jobs stay whole: nothing would be there to go on."""
        count = len(jobs)
        while True:
            forest, taken = self._plant(jobs[:count])
            if not taken:
                return []
            try:
                readout = self._run(forest.batch(), None, jobs[0].group.legal_mass)
                reads = _split(readout, [len(r.labels) for r in forest.reads])
            except Exception as error:
                if out_of_memory(error) and len(taken) > 1:
                    self.retries += 1
                    count = len(taken) // 2
                    continue
                if out_of_memory(error):
                    return [(taken[0].job, self._too_large(taken[0].job))]
                return [(t.job, error_of(error)) for t in taken]
            self.steps += 1
            self.computed += forest.tokens
            outcomes: Outcomes = []
            for mine in taken:
                mine.job.reads, reads = reads[: mine.lines], reads[mine.lines :]
                mine.job.computed = mine.computed
                outcomes.append((mine.job, finished(mine.job)))
            return outcomes

    def _plant(self, jobs: Sequence[Job]) -> tuple[Forest, list[_Taken]]:
        forest = Forest()
        taken: list[_Taken] = []
        for job in jobs:
            if job.ticket.cancelled():
                continue
            size = sum(map(len, {ids for line in job.lines for ids in (*line.pieces, line.leaf)}))
            if taken and forest.tokens + size > self.step_tokens:
                break
            before = forest.tokens
            for line in job.lines:
                leaf = forest.add([*line.pieces, line.leaf])
                forest.read(leaf, line.labels, line.prior, line.temperature)
            taken.append(_Taken(job, len(job.lines), forest.tokens - before))
        return forest, taken

    def _too_large(self, job: Job) -> ReadoffError:
        line = max(job.remaining, key=lambda one: one.shared + len(one.leaf))
        tokens = line.shared + len(line.leaf)
        if self.cache is None:
            return BudgetError(f"There isn't memory for a prompt of {tokens} tokens.")
        storage = self.cache.storage
        states = len(line.pieces) if storage.hybrid else 0
        need, budget = storage.size(tokens, states + 1), storage.budget
        return BudgetError(
            f"A prompt of {tokens} tokens needs about {need / 2**20:.1f} MiB, and cache_bytes "
            f"allows {budget / 2**20:.1f} MiB. Allow more, or set cache_bytes=0 to keep nothing."
            if need > budget
            else f"There isn't memory for a prompt of {tokens} tokens beside what is in use."
        )


def _split(readout: Readout, counts: Sequence[int]) -> list[Reads]:
    """The readout's rows as numbers, one entry a line."""
    logits, probabilities = readout.logits.tolist(), readout.probabilities.double().tolist()
    masses = None if readout.legal_mass is None else readout.legal_mass.tolist()
    reads, at = [], 0
    for row, count in enumerate(counts):
        here = slice(at, at + count)
        mass = None if masses is None else masses[row]
        reads.append(Reads(logits[here], probabilities[here], mass))
        at += count
    return reads
