"""What the prefix cache and the scheduler give and cost, in one run.

    python -m readoff.bench.cache --model demo      Qwen2.5-Coder-0.5B, real weights
    python -m readoff.bench.cache --model seeded    the shape of Qwen3.5-0.8B, seeded weights

Warm against cold, the price of the deterministic mode, concurrent callers against one call, the
time between `decide` and the forward pass, the scheduler's own time a request, and tail latencies
on a tiny model. Nothing is timed before warm and cold answers have been compared: a red gate ends
the run with status 1. The last line of stdout is one JSON document.
"""

from __future__ import annotations

import gc
import json
import platform
import threading
import time
from collections.abc import Sequence
from functools import partial
from statistics import median
from typing import Annotated, Any, Literal

import numpy as np
import torch
import typer

from readoff.bench.seeded import QWEN35_08B, TINY_HYBRID, SeededCheckpoint
from readoff.bench.timing import alternate, ratio, timed
from readoff.engine.backbones.decoder import Backbone
from readoff.engine.batch import Batch, Readout
from readoff.engine.checkpoint import Checkpoint
from readoff.engine.compute import on_compute_thread
from readoff.engine.engine import Engine
from readoff.engine.job import Group, Job, Reads
from readoff.engine.plan import Line
from readoff.engine.pools import Pools
from readoff.engine.questions import Choice
from readoff.engine.runtime import keep_heap
from readoff.engine.serving import Serving
from readoff.engine.source import resolve
from readoff.engine.worker import Worker

STATE, QUESTION, CALLERS, EACH, PENDING = 400, 40, 16, 4, 64
LABELS = tuple(range(32, 40))
GATE = 1.5
"""Warm may be this many times as far from cold as bf16 from fp32."""
CACHE = 2 << 30


class Bench:
    """One model, its fp32 twin for the gate, and workers over both."""

    def __init__(self, source: str, repeats: int) -> None:
        keep_heap()
        self.source, self.repeats = source, repeats
        seeded = source == "seeded"
        self.checkpoint: Checkpoint = (
            SeededCheckpoint(QWEN35_08B) if seeded else resolve(source, progress=None)
        )
        self.backbone = on_compute_thread(partial(load, self.checkpoint, torch.bfloat16))
        self.random = np.random.default_rng(0)

    def gate(self) -> dict[str, float]:
        """The largest |Δp| of warm from cold, and of bf16 from fp32. Raises SystemExit."""
        lines = [self.line(STATE, QUESTION) for _ in range(3)]
        lines += [Line(lines[0].pieces, self.ids(n), *_readout()) for n in (1, 7, 40, 64, 65)]
        wide = on_compute_thread(partial(load, self.checkpoint, torch.float32))
        exact = _ask_each(_worker(wide, 0), lines)
        cold = _ask_each(_worker(self.backbone, 0), lines)
        warm = _worker(self.backbone, CACHE)
        _ask_each(warm, lines)
        rounding = _apart(exact, cold)
        shift = _apart(cold, _ask_each(warm, lines))
        if not shift <= GATE * rounding:
            raise SystemExit(f"Red gate: warm is {shift:.2g} from cold, bf16 {rounding:.2g}.")
        return {"warm from cold": shift, "bf16 from fp32": rounding}

    def sharing(self) -> dict[str, Any]:
        """One question on a warm state against a cold request, plain and deterministic."""
        line = self.line(STATE, QUESTION)
        workers = {
            "cold": _worker(self.backbone, 0),
            "warm": _worker(self.backbone, CACHE),
            "cold, deterministic": _worker(self.backbone, 0, deterministic=True),
            "warm, deterministic": _worker(self.backbone, CACHE, deterministic=True),
        }
        for worker in workers.values():
            _ask(worker, line)
        runs = {name: partial(timed, partial(_ask, w, line)) for name, w in workers.items()}
        times = alternate(runs, self.repeats)
        told: dict[str, Any] = {f"{name} ms": t.median * 1e3 for name, t in times.items()}
        told["speedup"] = ratio(times["cold"], times["warm"])
        told["token bound"] = (STATE + QUESTION) / QUESTION
        for kind in ("cold", "warm"):
            told[f"deterministic price, {kind}"] = ratio(
                times[f"{kind}, deterministic"], times[kind]
            )
        return told

    def callers(self) -> dict[str, Any]:
        """Concurrent callers, each one request after another, against one call with all."""
        worker = _worker(self.backbone, CACHE)
        lines = [self.line(60, QUESTION) for _ in range(CALLERS * EACH)]

        def together() -> float:
            worker.clear()
            jobs = [_job(line) for line in lines]

            def run() -> None:
                worker.scheduler.submit_many(jobs)
                for job in jobs:
                    job.ticket.result()

            return timed(run)

        def apart() -> float:
            worker.clear()

            def call(mine: Sequence[Line]) -> None:
                for line in mine:
                    _ask(worker, line)

            threads = [
                threading.Thread(target=call, args=(lines[n::CALLERS],)) for n in range(CALLERS)
            ]

            def run() -> None:
                for thread in threads:
                    thread.start()
                for thread in threads:
                    thread.join()

            return timed(run)

        times = alternate({"one call": together, "callers": apart}, max(3, self.repeats // 2))
        return {
            "requests": len(lines),
            "one call ms": times["one call"].median * 1e3,
            "callers ms": times["callers"].median * 1e3,
            "throughput": ratio(times["one call"], times["callers"]),
        }

    def pending(self) -> dict[str, float]:
        """The scheduler's own milliseconds a request, with many pending, warm; no forward pass."""
        worker = _worker(self.backbone, CACHE)
        lines = [self.line(STATE, QUESTION) for _ in range(8)]
        for line in lines:
            _ask(worker, line)
        asked = [Line(lines[n % 8].pieces, self.ids(QUESTION), *_readout()) for n in range(PENDING)]
        worker.passes._run = _no_forward
        took = []
        for _ in range(20):
            jobs = [_job(line) for line in asked]

            def run(jobs: Sequence[Job] = jobs) -> None:
                left = list(jobs)
                while left:
                    for job, outcome in worker.passes.step(left):
                        job.ticket.set_result(outcome)
                    left = [job for job in left if not job.ticket.done()]

            took.append(on_compute_thread(partial(timed, run)))
        return {"pending": PENDING, "ms a request": median(took) / PENDING * 1e3}

    def line(self, state: int, question: int) -> Line:
        """A random prompt."""
        return Line((self.ids(state),), self.ids(question), *_readout())

    def ids(self, length: int) -> tuple[int, ...]:
        """Random token ids."""
        high = min(self.checkpoint.config.vocab_size, 100_000)
        return tuple(self.random.integers(0, high, length).tolist())


def to_forward(engine: Engine) -> dict[str, float]:
    """Milliseconds from `decide` to the start of the forward pass, a warm request of about 512
    tokens; and what collecting garbage takes before and after `warmup` froze what there was."""
    state = "The invoice was paid twice, and nobody answers the telephone. " * 37
    question = {"team": Choice(instructions="Which team?", criteria={"billing": None, "it": None})}
    before = min(timed(gc.collect) for _ in range(3)) * 1e3
    engine.warmup()
    after = min(timed(gc.collect) for _ in range(3)) * 1e3
    gc.unfreeze()
    worker, began = engine._worker, [0.0]
    run = worker.passes._run

    def noting(batch: Batch, pools: Pools | None, legal_mass: bool) -> Readout:
        began[0] = time.perf_counter()
        return run(batch, pools, legal_mass)

    worker.passes._run = noting
    took, tokens = [], 0
    for _ in range(30):
        start = time.perf_counter()
        tokens = engine.decide(state, question).usage.input_tokens
        took.append((began[0] - start) * 1e3)
    return {
        "tokens": tokens,
        "to forward ms": median(took[5:]),
        "collect ms": before,
        "collect frozen ms": after,
    }


def tails(requests: int) -> dict[str, float]:
    """Latencies in milliseconds of many warm requests, one at a time, on a tiny hybrid."""
    tiny = partial(load, SeededCheckpoint(TINY_HYBRID), torch.float32)
    worker = _worker(on_compute_thread(tiny), 64 << 20)
    random = np.random.default_rng(1)
    state = tuple(random.integers(0, 512, STATE).tolist())
    questions = [tuple(random.integers(0, 512, QUESTION).tolist()) for _ in range(64)]
    took = []
    for n in range(requests + 100):
        line = Line((state,), questions[n % 64], *_readout())
        took.append(timed(partial(_ask, worker, line)) * 1e3)
    p50, p99, p999 = np.percentile(took[100:], [50, 99, 99.9])
    return {"requests": requests, "p50 ms": p50, "p99 ms": p99, "p99.9 ms": p999}


def load(checkpoint: Checkpoint, dtype: torch.dtype) -> Backbone:
    """The backbone on the CPU, packed."""
    return Backbone.load(checkpoint.config, checkpoint, dtype, torch.device("cpu"), pack=True)


def _worker(backbone: Backbone, cache_bytes: int, *, deterministic: bool = False) -> Worker:
    return Worker(backbone, Serving(cache_bytes=cache_bytes, deterministic=deterministic))


def _readout() -> tuple[tuple[int, ...], tuple[float, ...], float]:
    return LABELS, (0.0,) * len(LABELS), 1.0


def _job(line: Line) -> Job:
    return Job([line], Group(), lambda job: job.reads[0])


def _ask(worker: Worker, line: Line) -> Reads:
    job = _job(line)
    worker.scheduler.submit(job)
    reads: Reads = job.ticket.result()
    return reads


def _ask_each(worker: Worker, lines: Sequence[Line]) -> list[list[float]]:
    return [_ask(worker, line).probabilities for line in lines]


def _apart(one: Sequence[Sequence[float]], other: Sequence[Sequence[float]]) -> float:
    return float(np.abs(np.asarray(one) - np.asarray(other)).max())


def _no_forward(batch: Batch, pools: Pools | None, legal_mass: bool) -> Readout:
    labels = len(batch.label_ids)
    return Readout(torch.zeros(labels), torch.full((labels,), 1 / len(LABELS)), None)


def main(
    model: Annotated[Literal["seeded", "demo"], typer.Option(help="Which model.")] = "demo",
    repeats: Annotated[int, typer.Option(min=1, help="Timed rounds.")] = 9,
    requests: Annotated[int, typer.Option(min=1, help="Requests for the tails.")] = 10_000,
) -> None:
    """Compare, time, print; the last line is JSON."""
    bench = Bench(model, repeats)
    parts: dict[str, Any] = {"gate": bench.gate()}
    parts["one warm question"] = bench.sharing()
    parts["concurrent callers"] = bench.callers()
    parts["scheduler"] = bench.pending()
    if model == "demo":
        parts["engine"] = to_forward(Engine.from_pretrained(model))
    parts["tails"] = tails(requests)
    for name, part in parts.items():
        typer.echo(name)
        for what, value in part.items():
            typer.echo(f"  {what:<28} {value:10.4g}")
    about = {"model": model, "threads": torch.get_num_threads(), "torch": torch.__version__}
    typer.echo(json.dumps({**about, "python": platform.python_version(), **parts}))


if __name__ == "__main__":
    typer.run(main)
