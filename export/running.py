"""`Running`: from waiting jobs to runs of a graph, and from what they read to finished jobs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from readoff.engine.calibration import probabilities
from readoff.engine.endings import error_of, finished
from readoff.engine.errors import NumericsError
from readoff.engine.job import Job, Reads
from readoff.engine.line import Ids, Line
from readoff.export.graph.options import FixedLabels, LabelBank
from readoff.export.past import Past
from readoff.export.past_cache import PastCache
from readoff.export.session import (
    Array,
    GraphSession,
    LabelRows,
    Outcome,
    load_runtime,
    padded,
)
from readoff.export.way import GRID, Way

Outcomes: TypeAlias = list[tuple[Job, Any]]
_Row: TypeAlias = tuple[Ids, tuple[int, ...], tuple[float, ...], float]

STEP_TOKENS = 512
"""New tokens of one run, about; newcomers wait for it."""

SCORES = 1 << 25
"""Attention scores of one run: 128 MiB in fp32, of which a few copies live at once."""

_SHORT = 32
"""Tokens of padding that cost less than a run more."""

_SCANNED = 512
"""Jobs that are looked at for one run."""


class Running:
    """One run of the graph at a time: the next part of the first job's state, or questions about
    it, those of other jobs about the same state too.

    `empty` is the past of no tokens. `device`: "cpu", or "cuda", to which a past is then copied
    once for all runs that follow one another from it.
    """

    def __init__(
        self,
        session: GraphSession,
        empty: Past,
        cache: PastCache | None,
        *,
        step_tokens: int = STEP_TOKENS,
        device: str = "cpu",
    ) -> None:
        self.cache = cache
        self.steps = self.computed = 0
        self._session, self._empty, self._device = session, empty, device
        self._step_tokens = max(GRID, step_tokens // GRID * GRID)
        self._ways: dict[Job, Way] = {}
        self._fed: tuple[Past, Mapping[str, Any]] | None = None

    def step(self, jobs: Sequence[Job]) -> Outcomes:
        """One run for the first of `jobs`. See `Scheduler`."""
        alive = [job for job in jobs[:_SCANNED] if not job.ticket.cancelled()]
        if not alive:
            return []
        job = alive[0]
        line = job.remaining[0]
        try:
            way = self._way(job, line)
            if not way.is_over:
                job.computed += self._advance(way)
                return []
        except Exception as error:
            self.let_go(job)
            return [(job, error_of(error))]
        if not line.leaf:
            job.reads.append(Reads([], [], None))
            return [(job, finished(job))] if not job.remaining else []
        taken, rows = self._take(alive, line.pieces)
        try:
            found = self._read(way.end, rows)
        except Exception as error:
            return [(each, error_of(error)) for each, _ in taken]
        return self._finish(taken, found)

    def let_go(self, job: Job) -> None:
        """Forget how far a job had come, and, where nothing is cached, what ran last."""
        self._ways.pop(job, None)
        if self.cache is None and not self._ways:
            self._fed = None

    def clear(self) -> None:
        """Forget every cached past."""
        self._fed = None
        if self.cache is not None:
            self.cache.clear()

    def _way(self, job: Job, line: Line) -> Way:
        """How far the prefix of `line` is: this job's, another's, or what is cached."""
        mine = self._ways.get(job)
        if mine is not None and mine.pieces == line.pieces:
            return mine
        ways = self._ways.values()
        way = next((way for way in ways if way.pieces == line.pieces), None) or self._begin(line)
        self._ways[job] = way
        return way

    def _begin(self, line: Line) -> Way:
        cache = self.cache
        if cache is None:
            return Way(line.pieces, self._empty, 0)
        way = Way(line.pieces, *cache.find(line.pieces))
        cache.counters.hits += way.is_over
        cache.counters.misses += not way.is_over
        if not (way.is_over or self._session.config.is_hybrid):
            part = cache.part(way.border, way.ahead())
            if part is not None:
                self._add(way, part)
        cache.counters.saved_tokens += way.end.length
        return way

    def _advance(self, way: Way) -> int:
        """Compute the next part of a way; returns how many tokens that were."""
        # A state can be kept where a run ends alone, keys and values anywhere within it.
        ids = way.ahead(stop_only=self._session.config.is_hybrid)
        ids = ids[: self._longest(way.end)]
        self._add(way, self._run_part(way.end, ids))
        return len(ids)

    def _run_part(self, past: Past, ids: Ids) -> Past:
        """One row of tokens that nothing is asked of."""
        options = self._session.options.labels
        label = options.ids[0] if isinstance(options, LabelBank) else 0
        new = self._run(past, [ids], LabelRows.of([[label]])).new
        grown: dict[str, Array] = {}
        whole: dict[str, Array] = {}
        for carried in self._session.carried:
            keep = grown if carried.kind in ("key", "value") else whole
            keep[carried.past.name] = new[carried.new.name]
        return Past(past, ids, grown, whole)

    def _add(self, way: Way, part: Past) -> None:
        """Put what was computed behind a way, cut at its stops, and keep the pasts there."""
        start = 0
        while start < len(part.ids):
            stop = min(len(part.ids), start + way.room())
            grown = {name: array[:, start:stop] for name, array in part.grown.items()}
            way.add(Past(way.end, part.ids[start:stop], grown, part.whole))
            kept = way.settle()
            if kept is not None and self.cache is not None:
                self.cache.put(way.pieces[: way.done], kept)
            start = stop

    def _take(
        self, jobs: Sequence[Job], pieces: tuple[Ids, ...]
    ) -> tuple[list[tuple[Job, list[_Row]]], list[_Row]]:
        """The next questions of jobs about one state, as many as a run takes, equal ones once."""
        taken: list[tuple[Job, list[_Row]]] = []
        rows: dict[_Row, None] = {}
        tokens = 0
        for job in jobs:
            mine: list[_Row] = []
            for line in job.remaining:
                row = (line.leaf, line.labels, line.prior, line.temperature)
                if not line.leaf or line.pieces != pieces:
                    break
                if row not in rows:
                    if rows and tokens + len(line.leaf) > self._step_tokens:
                        break
                    rows[row] = None
                    tokens += len(line.leaf)
                    job.computed += len(line.leaf)
                mine.append(row)
            if mine:
                taken.append((job, mine))
            if tokens >= self._step_tokens:
                break
        return taken, list(rows)

    def _finish(
        self, taken: Sequence[tuple[Job, list[_Row]]], found: Mapping[_Row, Reads]
    ) -> Outcomes:
        outcomes: Outcomes = []
        for job, rows in taken:
            job.reads += [found[row] for row in rows]
            if not job.remaining:
                outcomes.append((job, finished(job)))
        return outcomes

    def _read(self, past: Past, rows: Sequence[_Row]) -> dict[_Row, Reads]:
        """What is read for each of `rows` after `past`: in runs of rows of about one length."""
        found: dict[_Row, Reads] = {}
        waiting = sorted(rows, key=lambda row: len(row[0]))
        while waiting:
            longest = len(waiting[-1][0])
            if longest > self._longest(past):
                row = waiting.pop()
                found[row] = self._read_long(past, row)
                continue
            most = max(1, SCORES // (longest * self._width(past.length + longest)))
            batch = [row for row in waiting[-most:] if 2 * len(row[0]) + _SHORT >= longest]
            del waiting[-len(batch) :]
            found |= zip(batch, self._read_rows(past, batch), strict=True)
        return found

    def _read_long(self, past: Past, row: _Row) -> Reads:
        """A question that is longer than a run."""
        state, ids, rest = past, row[0], row[1:]
        while len(ids) > self._longest(past):
            part = ids[: self._longest(past)]
            made = self._run_part(past, part)
            if past is not state:  # only the last part's states are needed
                made = made.after(past.bare())
            past, ids = made, ids[len(part) :]
        return self._read_rows(past, [(ids, *rest)])[0]

    def _read_rows(self, past: Past, rows: Sequence[_Row]) -> list[Reads]:
        """One run. Where numbers aren't finite, each row alone, so that others have theirs."""
        leaves, labels, priors, temperatures = zip(*rows, strict=True)
        try:
            outcome = self._run(past, leaves, LabelRows.of(labels, priors, temperatures))
        except NumericsError:
            if len(rows) > 1:
                return [self._read_rows(past, [row])[0] for row in rows]
            nothing = [float("nan")] * len(labels[0])  # the answer's maker names the question
            return [Reads(nothing, nothing, None)]
        z, p = outcome.logits.tolist(), outcome.probabilities.astype(np.float64).tolist()
        if isinstance(self._session.options.labels, FixedLabels):
            # The card counts, and a call's own prior, not what was baked in.
            p = [
                probabilities(*given).tolist()
                for given in zip(z, priors, temperatures, strict=True)
            ]
        counts = map(len, labels)
        return [Reads(a[:n], b[:n], None) for a, b, n in zip(z, p, counts, strict=True)]

    def _run(self, past: Past, rows: Sequence[Ids], labels: LabelRows) -> Outcome:
        lengths = [len(row) for row in rows]
        tokens = padded(rows, np.int64)
        before = self._arrays(past)
        if self._device == "cpu":
            outcome = self._session.run(tokens, lengths, [past.length], before, labels)
        else:
            outcome = self._session.run_on("cpu", tokens, lengths, [past.length], before, labels)
            new = {name: value.numpy() for name, value in outcome.new.items()}
            outcome = Outcome(outcome.logits, outcome.probabilities, new)
        self.steps += 1
        self.computed += sum(lengths)
        return outcome

    def _arrays(self, past: Past) -> Mapping[str, Any]:
        """The inputs `past.*`, kept for the next run from the same past."""
        if self._fed is None or self._fed[0] is not past:
            arrays: Mapping[str, Any] = past.arrays()
            if self._device != "cpu":
                put = load_runtime().OrtValue.ortvalue_from_numpy
                arrays = {name: put(array, self._device, 0) for name, array in arrays.items()}
            self._fed = (past, arrays)
        return self._fed[1]

    def _longest(self, past: Past) -> int:
        """New tokens of one row after `past`, so that its scores stay within `SCORES`."""
        size = self._step_tokens
        while size > GRID and size * self._width(past.length + size) > SCORES:
            size -= GRID
        return size

    def _width(self, keys: int) -> int:
        """Attention scores of one new token."""
        return self._session.config.num_heads * keys
