"""One run of the bench: workload after workload through the ladder, findings into a `Result`."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

import numpy as np

from readoff.bench import labelled
from readoff.bench.ceilings import measure_ceilings
from readoff.bench.gate import GateError
from readoff.bench.http.opponents import Opponents
from readoff.bench.http.opponents import measure as measure_opponents
from readoff.bench.ladder import Ladder
from readoff.bench.ladder_result import LadderResult, Progress
from readoff.bench.pace import Pace
from readoff.bench.records import Given, RungReport, Workload
from readoff.bench.report import targets
from readoff.bench.report.result import Result
from readoff.bench.rungs.rung import Rung
from readoff.bench.selection import Effort, effort, rungs_for, sample, spared
from readoff.bench.workloads.search import order_of
from readoff.engine.checkpoint import Checkpoint
from readoff.engine.compute import on_compute_thread
from readoff.engine.engine import Engine
from readoff.engine.gate import choose_gate
from readoff.engine.prompt import Renderer
from readoff.engine.template import Template

QUALITY = ("L0", "L1", "L2t", "L4")
"""The rungs that answer labelled data: both kinds of JSON, and the readout, theirs and ours."""


class Watch(Protocol):
    """Who looks on while it runs."""

    def stage(self, text: str) -> None:
        """Something that isn't a workload begins."""

    def workload(self, name: str, number: int, total: int) -> None:
        """The `number`th of `total` workloads begins."""

    def progress(self, progress: Progress) -> None:
        """A request begins."""

    def reports(self, reports: Sequence[RungReport]) -> None:
        """A workload is done."""


@dataclass(frozen=True)
class Settings:
    """What a user may choose; None leaves it to `selection`."""

    quick: bool = False
    seed: int = 0
    rungs: Sequence[str] | None = None
    repeats: int | None = None
    opponents: Opponents = field(default_factory=Opponents)


class Session:
    """Measures `workloads`, then answers `labelled` data, then asks the opponents.

    Everything goes into `result` as it comes, and `save` is called after each workload. Raises
    GateError, ReadoffError and KeyboardInterrupt after what was measured is in `result`.
    """

    def __init__(
        self,
        engine: Engine,
        checkpoint: Checkpoint,
        rungs: Sequence[Rung],
        result: Result,
        settings: Settings,
        watch: Watch,
        save: Callable[[], None] = lambda: None,
    ) -> None:
        self.engine, self.checkpoint, self.rungs = engine, checkpoint, list(rungs)
        self.result, self.settings, self.watch, self.save = result, settings, watch, save
        self.answers: dict[str, Sequence[Mapping[str, Given]]] = {}
        self._ladders = {
            order: Ladder(
                self._ordered(order),
                checkpoint,
                rungs=self.rungs,
                seed=settings.seed,
                progress=self._progress,
            )
            for order in ("state-first", "question-first")
        }
        self._pace = Pace(Effort(0, 0, 0.0))
        self._started = time.perf_counter()

    def run(self, workloads: Sequence[Workload], data: Sequence[Workload] = ()) -> None:
        """The whole run."""
        self._started = time.perf_counter()
        self._measure_ceilings()
        total = len(workloads) + len(data)
        asks = sample([*workloads, *data], quick=self.settings.quick)
        if asks:
            self.watch.stage("measuring how far rounding moves probabilities")
            bounds = self._ladders["state-first"].measure_bounds(asks)
            self._ladders["question-first"].bounds = bounds
        for number, workload in enumerate(workloads, 1):
            if spared(workload, self._elapsed(), quick=self.settings.quick):
                self.result.notes.append(f"{workload.name}: no time was left for it.")
                continue
            self.watch.workload(workload.name, number, total)
            self._measure(workload)
        for number, workload in enumerate(data, len(workloads) + 1):
            self.watch.workload(workload.name, number, total)
            self._label(workload)
        self._opponents(workloads, data)
        self.result.complete = True

    def _elapsed(self) -> float:
        return time.perf_counter() - self._started

    def _ordered(self, order: str) -> Engine:
        """The engine, its template's order changed; the weights are the same ones."""
        engine = self.engine
        if engine.renderer.template.order == order:
            return engine
        tokenizer = engine.renderer.tokenizer
        template = Template.load(tokenizer, order, engine.renderer.template.id)
        renderer = Renderer(tokenizer, template, engine.card.labels)
        threads = engine.info()["threads"]
        made = Engine(
            engine.backbone, renderer, engine.card, name=engine.name, thread_count=threads
        )
        made.warmup()
        return made

    def _measure_ceilings(self) -> None:
        self.watch.stage("measuring what this machine can do at best")
        found = on_compute_thread(
            partial(
                measure_ceilings,
                self.engine.dtype,
                self.engine.device,
                self.engine.info()["threads"],
                seconds=0.4 if self.settings.quick else 1.5,
            )
        )
        self.result.ceilings |= {
            "flops_per_s": found.flops_per_s,
            "bytes_per_s": found.bytes_per_s,
        }

    def _measure(self, workload: Workload) -> None:
        quick, repeats = self.settings.quick, self.settings.repeats
        wanted = effort(workload, quick=quick, repeats=repeats, elapsed=self._elapsed())
        self._pace = Pace(wanted)
        found = self._climb(workload, self.settings.rungs, self._pace.effort.repeats)
        for report in found.reports:
            name = report.name
            self.result.add_rung(
                report,
                found.titles[name],
                step_ms=_step_ms(workload, report),
                json_model=self._json_model(name, found),
            )
        self._done(workload, found)

    def _label(self, workload: Workload) -> None:
        self._pace = Pace(Effort(0, 0, float("inf")))
        found = self._climb(workload, self.settings.rungs or QUALITY, 0)
        for name, runs in found.answers.items():
            given = [run.given for run in runs]
            self.result.quality += labelled.rows(
                workload.name,
                name,
                workload.asks,
                given,
                self.settings.seed,
                choose_gate(None, self.engine.card),
            )
        self._done(workload, found)

    def _climb(
        self, workload: Workload, wanted: Sequence[str] | None, repeats: int
    ) -> LadderResult:
        ladder = self._ladders[order_of(workload)]
        names = rungs_for(
            workload,
            [rung.name for rung in self.rungs],
            quick=self.settings.quick,
            wanted=wanted,
        )
        ladder.rungs = [rung for rung in self.rungs if rung.name in names]
        ladder.repeats = repeats
        self.result.add_workload(workload)
        try:
            return ladder.run(workload)
        except GateError as error:
            failed = RungReport(error.rung, workload.name, (), 0, 0, 0, 0, error.gate)
            self.result.add_rung(failed)
            raise

    def _done(self, workload: Workload, found: LadderResult) -> None:
        """Keep the rest, and stop if the user said so."""
        self.answers[workload.name] = [run.given for run in found.answers.get("L4", ())]
        for name, reason in found.skipped.items():
            note = reason if name in reason else f"{name}: {reason}"
            if note not in self.result.notes:
                self.result.notes.append(note)
        self.result.targets = targets.judge(self.result.document())
        self.watch.reports(found.reports)
        self.save()
        if found.interrupted and not self._pace.enough:
            raise KeyboardInterrupt

    def _progress(self, progress: Progress) -> None:
        self.watch.progress(progress)
        self._pace.look(progress)

    def _json_model(self, name: str, found: LadderResult) -> dict[str, Any] | None:
        """What `1 + n·t_token/t_prefill` is made of."""
        ratio = found.modelled.get(name)
        times = next((getattr(r, "times", None) for r in self.rungs if r.name == name), None)
        if ratio is None or times is None:
            return None
        return {
            "tokens": times.tokens,
            "token_ms": times.token * 1e3,
            "prefill_ms": times.prefill * 1e3,
            "ratio": ratio,
        }

    def _opponents(self, workloads: Sequence[Workload], data: Sequence[Workload]) -> None:
        if self.settings.opponents.urls:
            workload = next(w for w in (*workloads, *data) if w.asks)
            measure_opponents(
                self.settings.opponents,
                workload,
                data,
                self.result,
                quick=self.settings.quick,
                ours=self.answers.get(workload.name) or None,
                seed=self.settings.seed,
                tell=self.watch.stage,
            )


def _step_ms(workload: Workload, report: RungReport) -> float | None:
    """The median time of a search step: all its requests together."""
    documents = workload.axes.get("documents")
    if documents is None or not report.seconds:
        return None
    size = int(documents) + 1
    seconds = np.asarray(report.seconds[: len(report.seconds) // size * size])
    return float(np.median(seconds.reshape(-1, size).sum(axis=1)) * 1e3) if seconds.size else None
