"""Runs the demonstration: the same questions read off and generated, timed in turns.

Both contenders have the same base, number format, device and thread count. JSON is written without
the adapter that `demo` comes with: one that is trained for the readout no longer writes JSON, and
comparing with that would be unfair. Merged adapters cost no time. Every read-off is cold (the whole
prompt is computed) unless the report's `cached_tokens` says otherwise.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from readoff.commands.demo_states import CASES, Case
from readoff.commands.output import progress
from readoff.engine import wire

if TYPE_CHECKING:
    from readoff.bench.json_generate import Generated, JsonGenerator
    from readoff.engine.answers import Decision
    from readoff.engine.engine import Engine

R = TypeVar("R")

BUDGET = 60.0
"""Seconds after which no further round of measurements begins."""


@dataclass(frozen=True)
class DecisionRow:
    """One question: its answer in the wire format, and both median times in seconds."""

    name: str
    family: str
    answer: dict[str, Any]
    alone: float
    generated: Generated | None


@dataclass(frozen=True)
class CaseReport:
    """One state, all its questions in one pass: the median of the seconds, the tokens of a pass."""

    title: str
    rows: tuple[DecisionRow, ...]
    seconds: float
    input_tokens: int
    computed_tokens: int
    cached_tokens: int


@dataclass(frozen=True)
class Report:
    """Everything the demonstration shows. Times are seconds: medians over `repeats` rounds."""

    model: str
    device: str
    dtype: str
    threads: int
    repeats: int
    cases: tuple[CaseReport, ...]

    @property
    def rows(self) -> list[DecisionRow]:
        return [row for case in self.cases for row in case.rows]

    @property
    def generated(self) -> list[Generated]:
        return [row.generated for row in self.rows if row.generated is not None]

    @property
    def together(self) -> float:
        """All decisions, those about one state in one pass."""
        return sum(case.seconds for case in self.cases)

    @property
    def alone(self) -> float:
        """All decisions, one pass each."""
        return sum(row.alone for row in self.rows)

    @property
    def generation(self) -> float | None:
        """All decisions by JSON generation; None when that was left out."""
        return sum(item.seconds for item in self.generated) if self.generated else None


def run(engine: Engine, model: str, *, repeats: int, generate: bool) -> Report:
    """Warm up, then answer every question of `CASES` in rounds.

    A round reads every state off with all its questions, and reads and generates every question
    by itself, in turns. No round begins after `BUDGET` seconds; `Report.repeats` is how many were
    made, and every time is the median over them.
    """
    facts = engine.info()
    generator = None
    if generate:
        with progress("loading the same base into transformers"):
            generator = _compute(facts["threads"], partial(_generator, engine, model))
    times = [CaseTimes(case, facts["threads"]) for case in CASES]
    with progress("warming up"):
        engine.warmup()
        if generator is not None:
            _compute(facts["threads"], generator.warmup)
    started = time.perf_counter()
    rounds = 0
    while rounds < repeats and (rounds == 0 or time.perf_counter() - started < BUDGET):
        rounds += 1
        with progress(f"round {rounds} of {repeats}"):
            for one in times:
                one.round(engine, generator)
    return Report(
        model=model,
        device=str(facts["device"]),
        dtype=str(facts["dtype"]),
        threads=int(facts["threads"]),
        repeats=rounds,
        cases=tuple(one.report() for one in times),
    )


class CaseTimes:
    """What was measured on one state, round after round."""

    def __init__(self, case: Case, threads: int = 1) -> None:
        self.case, self.threads = case, threads
        self.together: list[tuple[Decision, float]] = []
        self.alone: dict[str, list[float]] = {name: [] for name in case.questions}
        self.generated: dict[str, list[Generated]] = {name: [] for name in case.questions}

    def round(self, engine: Engine, generator: JsonGenerator | None) -> None:
        """Every measurement once, the contenders in turns."""
        self.together.append(_timed(engine, self.case, *self.case.questions))
        for name, question in self.case.questions.items():
            self.alone[name].append(_timed(engine, self.case, name)[1])
            if generator is not None:
                ask = partial(generator.ask, self.case.state, question)
                self.generated[name].append(_compute(self.threads, ask))

    def report(self) -> CaseReport:
        """Medians, with the answers of the first round: they don't change between rounds."""
        decision = self.together[0][0]
        response: dict[str, Any] = wire.render_response(decision, decision.model)
        return CaseReport(
            title=self.case.title,
            rows=tuple(self._row(name, response["answers"][name]) for name in self.case.questions),
            seconds=statistics.median(seconds for _, seconds in self.together),
            input_tokens=decision.usage.input_tokens,
            computed_tokens=decision.usage.computed_tokens,
            cached_tokens=max(found.usage.cached_tokens for found, _ in self.together),
        )

    def _row(self, name: str, answer: dict[str, Any]) -> DecisionRow:
        generated = None
        if self.generated[name]:
            seconds = statistics.median(item.seconds for item in self.generated[name])
            generated = replace(self.generated[name][0], seconds=seconds)
        alone = statistics.median(self.alone[name])
        return DecisionRow(name, self.case.families[name], answer, alone, generated)


def _timed(engine: Engine, case: Case, *names: str) -> tuple[Decision, float]:
    questions = {name: case.questions[name] for name in names}
    started = time.perf_counter()
    decision = engine.decide(case.state, questions)
    return decision, time.perf_counter() - started


def _generator(engine: Engine, model: str) -> JsonGenerator:
    from readoff.bench.json_generate import JsonGenerator
    from readoff.bench.transformers_model import transformers_model
    from readoff.engine.source import bare, resolve

    opponent = transformers_model(resolve(bare(model)), dtype=engine.dtype, device=engine.device)
    return JsonGenerator(opponent, engine.renderer.tokenizer)


def _compute(count: int, function: Callable[[], R]) -> R:
    """What the opponent does, with the engine's number of threads and on its computing thread: a
    second one that uses OpenMP would slow both."""
    from readoff.engine.compute import on_compute_thread
    from readoff.engine.runtime import threads

    def work() -> R:
        with threads(count):
            return function()

    return on_compute_thread(work)
