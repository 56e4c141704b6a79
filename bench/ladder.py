"""The ladder: every rung on the same requests, in turn, each gated against the one below."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise

from readoff.bench.gate import Bounds, GateError, agreement, compare, compare_tokens
from readoff.bench.ladder_result import LadderResult, Phase, Progress
from readoff.bench.memory import PeakMemory
from readoff.bench.records import Ask, Gate, Run, RungReport, Speedup, Workload
from readoff.bench.rungs.first_token import FirstToken
from readoff.bench.rungs.rung import Rung, UnavailableError
from readoff.bench.rungs.standard import standard_rungs
from readoff.bench.rungs.strong_json import StrongJson, Transcript
from readoff.bench.rungs.work import Work, bytes_moved, flops
from readoff.bench.speedups import speedup
from readoff.bench.yardstick import measure_bounds
from readoff.engine.checkpoint import Checkpoint
from readoff.engine.engine import Engine

BASELINES = ("L0", "L1", "L1j", "L2t")
"""The rungs that speed-ups are told against."""


@dataclass
class _Track:
    """One rung on its way through a workload."""

    rung: Rung
    answers: list[Run] = field(default_factory=list)
    transcripts: list[Mapping[str, Transcript]] = field(default_factory=list)
    gate: Gate | None = None
    peak: int | None = None
    runs: list[Run] = field(default_factory=list)
    work: Work = field(default_factory=Work)

    def run(self, asks: Sequence[Ask]) -> list[Run]:
        """Answer `asks`, the work counted only where all went through."""
        self.rung.work = Work()
        runs = self.rung.where_it_computes(partial(self.rung.answers, asks))
        self.work += self.rung.work
        return runs


class Ladder:
    """Runs workloads through rungs that share one engine and one checkpoint.

    `repeats` rounds are timed, after one round that is gated and not timed; 0 gives answers and
    gates only. `rungs` default to all of `standard_rungs`. `bounds` default to what
    `measure_bounds` finds on the first workload. `progress` is called before every request.
    """

    def __init__(
        self,
        engine: Engine,
        checkpoint: Checkpoint,
        *,
        rungs: Sequence[Rung] | None = None,
        repeats: int = 5,
        seed: int = 0,
        bounds: Bounds | None = None,
        progress: Callable[[Progress], None] = lambda _: None,
    ) -> None:
        self.engine, self.checkpoint = engine, checkpoint
        self.rungs = (
            standard_rungs(checkpoint, engine.dtype, engine.device)
            if rungs is None
            else list(rungs)
        )
        self.repeats, self.seed = repeats, seed
        self.bounds = bounds
        self._progress = progress

    def measure_bounds(self, asks: Sequence[Ask], workload: str = "") -> Bounds:
        """Set the gates' bounds from these requests: some of every workload give a fair sample."""
        self._progress(Progress(workload, "", "yardstick", 0, len(asks)))
        opponents = [rung.opponent for rung in self.rungs if isinstance(rung, FirstToken)]
        opponent = opponents[0] if opponents else None
        self.bounds = measure_bounds(self.engine, self.checkpoint, asks, opponent)
        return self.bounds

    def run(self, workload: Workload) -> LadderResult:
        """Prepare, gate, then time the rungs in turn.

        Raises GateError, naming the rung, before anything is timed, or after it where a timed
        answer isn't the one that was gated. Ctrl-C ends the run early and keeps its findings.
        """
        tracks: list[_Track] = []
        skipped: dict[str, str] = {}
        interrupted = False
        try:
            tracks += self._prepare(workload, skipped)
            if self.bounds is None:
                self.measure_bounds(workload.asks, workload.name)
            self._gate(workload, tracks)
            for track in tracks:
                track.rung.restart()
                track.work = Work()
            self._measure(workload, tracks)
        except KeyboardInterrupt:
            interrupted = True
        gated = [track for track in tracks if len(track.answers) == len(workload.asks)]
        if self.repeats:
            self._check_timed(workload, gated)
            gated = [track for track in gated if track.runs]
        modelled = {t.rung.name: t.rung.modelled() for t in gated}
        return LadderResult(
            workload,
            [self._report(workload, track, gated) for track in gated],
            {track.rung.name: track.rung.title for track in gated},
            {track.rung.name: track.answers for track in gated},
            {name: value for name, value in modelled.items() if value is not None},
            skipped,
            self.bounds,
            interrupted,
        )

    def _prepare(self, workload: Workload, skipped: dict[str, str]) -> list[_Track]:
        tracks = []
        for number, rung in enumerate(self.rungs):
            self._tell(workload, rung, "prepare", number, len(self.rungs))
            try:
                rung.where_it_computes(partial(rung.prepare, self.engine, workload))
                tracks.append(_Track(rung))
            except UnavailableError as reason:
                skipped[rung.name] = str(reason)
        return tracks

    def _gate(self, workload: Workload, tracks: Sequence[_Track]) -> None:
        """One round of every rung, readouts first, each compared with the one below it."""
        assert self.bounds is not None
        readouts = [track for track in tracks if track.rung.kind == "readout"]
        below: _Track | None = None
        for track in readouts:
            self._answer_all(workload, track)
            if below is not None:
                bound = self._bound(self.bounds, below.rung)
                name = below.rung.name
                self._judge(
                    track, compare(workload.asks, name, below.answers, track.answers, bound)
                )
            below = track
        plain: _Track | None = None
        for track in (track for track in tracks if track.rung.kind == "json"):
            self._answer_all(workload, track)
            if readouts:
                name, answers = readouts[0].rung.name, readouts[0].answers
                track.gate = agreement(workload.asks, name, answers, track.answers)
            if plain is not None and isinstance(track.rung, StrongJson):
                bound = self.bounds.ours
                name = plain.rung.name
                gate = compare_tokens(name, plain.transcripts, track.transcripts, bound)
                self._judge(track, gate)
            elif isinstance(track.rung, StrongJson):
                plain = track

    @staticmethod
    def _bound(bounds: Bounds, below: Rung) -> float:
        """The bound between `below` and the rung above it."""
        return bounds.transformers if isinstance(below, FirstToken) else bounds.ours

    @staticmethod
    def _judge(track: _Track, gate: Gate) -> None:
        track.gate = gate
        if not gate.ok:
            raise GateError(track.rung.name, gate)

    def _answer_all(self, workload: Workload, track: _Track) -> None:
        """The gated round: not timed, so that memory can be watched while it runs."""
        answers: list[Run] = []
        with PeakMemory() as memory:
            for asks in chunks(workload.asks, track.rung.group):
                self._tell(workload, track.rung, "gate", len(answers), len(workload.asks))
                answers += track.run(asks)
                if isinstance(track.rung, StrongJson):
                    track.transcripts.append(track.rung.transcripts)
        track.answers, track.peak = answers, memory.peak

    def _measure(self, workload: Workload, tracks: Sequence[_Track]) -> None:
        """The timed rounds: each request goes through all rungs before the next one comes."""
        widest = max((track.rung.group for track in tracks), default=1)
        total = self.repeats * len(workload.asks)
        for _ in range(self.repeats):
            for group in chunks(workload.asks, widest):
                for number, ask in enumerate(group):
                    for track in tracks:
                        alone = track.rung.group == 1
                        if not alone and number < len(group) - 1:
                            continue
                        seconds = [run.seconds for run in track.runs]
                        done = len(seconds)
                        self._tell(workload, track.rung, "measure", done, total, seconds)
                        track.runs += track.run([ask] if alone else group)

    def _check_timed(self, workload: Workload, tracks: Sequence[_Track]) -> None:
        """What was timed must be what was gated."""
        assert self.bounds is not None or not tracks
        count = len(workload.asks)
        for track in (t for t in tracks if t.rung.kind == "readout"):
            for start in range(0, len(track.runs) - count + 1, count):
                timed = track.runs[start : start + count]
                name = f"{track.rung.name} before the clock started"
                bound = self.bounds.ours if self.bounds else 0.0
                gate = compare(workload.asks, name, track.answers, timed, bound)
                if not gate.ok:
                    raise GateError(track.rung.name, gate)

    def _report(self, workload: Workload, track: _Track, tracks: Sequence[_Track]) -> RungReport:
        runs = track.runs or track.answers
        asks = [workload.asks[n % len(workload.asks)] for n in range(len(runs))]
        config, size = self.engine.backbone.config, self.engine.dtype.itemsize
        return RungReport(
            name=track.rung.name,
            workload=workload.name,
            seconds=tuple(run.seconds for run in track.runs),
            decisions=sum(len(ask.questions) for ask in asks),
            tokens_computed=sum(run.tokens_computed for run in runs),
            tokens_generated=sum(run.tokens_generated for run in runs),
            failures=sum(g.failure is not None for run in runs for g in run.given.values()),
            gate=track.gate,
            speedups=self._speedups(track, tracks),
            bytes_moved=bytes_moved(config, track.work, size),
            flops=flops(config, track.work),
            peak_bytes=track.peak,
        )

    def _speedups(self, track: _Track, tracks: Sequence[_Track]) -> dict[str, Speedup]:
        found = {}
        fast = [run.seconds for run in track.runs]
        for other in tracks:
            if other.rung.name in BASELINES and other is not track:
                slow = [run.seconds for run in other.runs]
                pairs = min(len(slow), len(fast))
                if pairs:
                    found[other.rung.name] = speedup(slow[:pairs], fast[:pairs], self.seed)
        return found

    def _tell(
        self,
        workload: Workload,
        rung: Rung,
        phase: Phase,
        done: int,
        total: int,
        seconds: Sequence[float] = (),
    ) -> None:
        self._progress(Progress(workload.name, rung.name, phase, done, total, seconds))


def chunks(asks: Sequence[Ask], size: int) -> list[Sequence[Ask]]:
    """Groups of at most `size`, in order and as equal as they can be."""
    count = -(-len(asks) // size)
    edges = [len(asks) * n // max(1, count) for n in range(count + 1)]
    return [asks[a:b] for a, b in pairwise(edges)]
