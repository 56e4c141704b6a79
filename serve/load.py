"""`python -m readoff.serve.load`: what the server costs, and whether it holds.

It starts a server of its own and asks it (1) over one connection, in turn with calls of the same
model's engine in this process, so that the difference is the server's; (2) over many connections at
once, comparing every answer with the engine's own. The last line of stdout is one JSON document.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from readoff.engine import wire
from readoff.serve.load_client import Ask, Outcome, make_asks, many, one_by_one

_START = 300.0


def measure(
    url: str,
    engine: Any,
    *,
    pid: int | None = None,
    connections: int = 64,
    seconds: float = 60.0,
    rounds: int = 20,
    tolerance: float = 1e-5,
) -> dict[str, Any]:
    """The whole document, for a server at `url` and an engine of the same model here.

    `pid`: the server's process, whose memory is watched. Raises AssertionError for an answer that
    isn't 200 where nothing else was asked at the time.
    """
    asks = expected(engine, make_asks(8 * connections))
    overhead = measure_overhead(url, engine, asks[:16], rounds)
    with watched(pid) as memory:
        start = time.perf_counter()
        outcome = asyncio.run(
            many(url, asks, connections=connections, seconds=seconds, tolerance=tolerance)
        )
        took = time.perf_counter() - start
    return {
        "overhead": overhead,
        "load": {"connections": connections, "seconds": round(took, 2), **told(outcome, took)},
        "memory": flatness(memory),
    }


def expected(engine: Any, asks: Sequence[Ask]) -> list[Ask]:
    """The requests with what the engine answers."""
    made = []
    decisions = engine.decide_many([(ask.state, ask.questions) for ask in asks])
    for ask, decision in zip(asks, decisions, strict=True):
        answers = json.loads(wire.dumps(wire.render_response(decision, "")))["answers"]
        made.append(replace(ask, expected=answers))
    return made


def measure_overhead(url: str, engine: Any, asks: Sequence[Ask], rounds: int) -> dict[str, float]:
    """Milliseconds of a request over one connection, of a call of the engine, and in between.

    Both take turns, so that what the machine does meanwhile meets both; what is asked is warm.
    """
    direct: list[float] = []
    served: list[float] = []
    asyncio.run(one_by_one(url, asks, 2))
    for _ in range(rounds):
        served += asyncio.run(one_by_one(url, asks, 1))
        for ask in asks:
            start = time.perf_counter()
            engine.decide(ask.state, ask.questions)
            direct.append(time.perf_counter() - start)
    medians = [statistics.median(times) * 1e3 for times in (served, direct)]
    return {
        "served_ms": round(medians[0], 3),
        "engine_ms": round(medians[1], 3),
        "overhead_ms": round(medians[0] - medians[1], 3),
        "requests": len(served),
    }


def told(outcome: Outcome, took: float) -> dict[str, Any]:
    """An outcome as JSON values."""
    times = sorted(outcome.seconds)
    p50, p99 = _quantile(times, 0.5), _quantile(times, 0.99)
    return {
        "requests": len(times),
        "per_second": round(len(times) / took, 1),
        "p50_ms": round(p50 * 1e3, 2),
        "p99_ms": round(p99 * 1e3, 2),
        "p99_over_p50": round(p99 / p50, 2) if p50 else None,
        "statuses": dict(outcome.statuses),
        "crossed": outcome.crossed,
        "lost": outcome.lost,
        "refused": outcome.refused,
        "faults": outcome.faults[:5],
    }


@contextmanager
def watched(pid: int | None, every: float = 0.5) -> Iterator[list[float]]:
    """MiB of a process, sampled meanwhile; nothing where that can't be read."""
    found: list[float] = []
    stop = threading.Event()
    path = Path(f"/proc/{pid}/status")

    def sample() -> None:
        while not stop.wait(every):
            lines = path.read_text().splitlines()
            found.append(
                next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS"))
            )

    thread = threading.Thread(target=sample)
    if path.exists():
        thread.start()
    try:
        yield found
    finally:
        stop.set()
        if thread.ident is not None:
            thread.join()


def flatness(samples: Sequence[float]) -> dict[str, float] | None:
    """MiB in the second quarter of the time and in the last (the first quarter fills caches)."""
    quarter = len(samples) // 4
    if quarter < 2:
        return None
    early = statistics.median(samples[quarter : 2 * quarter])
    late = statistics.median(samples[-quarter:])
    return {"early_mib": round(early, 1), "late_mib": round(late, 1), "grown": late / early - 1}


def _quantile(times: Sequence[float], q: float) -> float:
    return times[min(len(times) - 1, int(q * len(times)))] if times else 0.0


@contextmanager
def _server(arguments: Sequence[str]) -> Iterator[tuple[str, int]]:
    """`readoff serve` on a free port: its URL and process."""
    command = [sys.executable, "-m", "readoff", "serve", "--port", "0", *arguments]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    url, end = "", time.monotonic() + _START
    for line in process.stderr:
        event = json.loads(line) if line.startswith("{") else {}
        url = event.get("url", url)
        if event.get("event") == "ready" or time.monotonic() > end:
            break
    drain = threading.Thread(target=process.stderr.read, daemon=True)
    drain.start()
    try:
        yield url, process.pid
    finally:
        process.terminate()
        process.wait()


def main(arguments: Sequence[str] | None = None) -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m readoff.serve.load", description=__doc__)
    parser.add_argument("--model", default="demo", help="as for readoff serve")
    parser.add_argument("--dtype", default="auto")
    parser.add_argument("--threads", type=int)
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--tolerance", type=float, default=1e-5, help="in p; bf16: about 2e-2")
    options = parser.parse_args(arguments)
    from readoff.export.opening import open_engine

    passed = ["--model", options.model, "--dtype", options.dtype, "--log-level", "info"]
    if options.threads is not None:
        passed += ["--threads", str(options.threads)]
    engine = open_engine(options.model, dtype=options.dtype, threads=options.threads)
    engine.warmup()
    with engine, _server(passed) as (url, pid):
        document = measure(
            url,
            engine,
            pid=pid,
            connections=options.connections,
            seconds=options.seconds,
            rounds=options.rounds,
            tolerance=options.tolerance,
        )
    print(json.dumps({"model": options.model, **document}))


if __name__ == "__main__":
    main()
