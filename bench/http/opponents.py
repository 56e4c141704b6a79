"""The opponents that a user names: each swept over a workload, and judged on labelled data."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from readoff.bench.http.endpoint import TIMEOUT, Endpoint, Kind
from readoff.bench.http.sweep import NO_ANSWER, Bounds, Level, sweep
from readoff.bench.labelled import rows
from readoff.bench.records import Ask, Given, Workload
from readoff.bench.report.result import Result, percentiles

QUICK = Bounds(levels=(1, 2, 4, 8), requests=16, seconds=10.0)
FULL = Bounds()
LABELLED_SECONDS = 600.0


@dataclass(frozen=True)
class Opponents:
    """Where they are and how they are asked. Nothing is contacted that isn't named here."""

    urls: Sequence[str] = ()
    kind: Kind | None = None
    model: str | None = None
    key: str | None = None
    timeout: float = TIMEOUT


def measure(
    opponents: Opponents,
    workload: Workload,
    labelled: Sequence[Workload],
    result: Result,
    *,
    quick: bool,
    ours: Sequence[Mapping[str, Given]] | None = None,
    seed: int = 0,
    tell: Callable[[str], None] = lambda text: None,
) -> None:
    """Put each opponent's numbers into `result` as they come: a failure keeps those before it.

    `ours` are our own answers to `workload`, to be compared with. Raises ReadoffError when an
    opponent can't be reached or stops answering.
    """
    for url in opponents.urls:
        tell(f"contacting {url}")
        with Endpoint(
            url,
            kind=opponents.kind,
            model=opponents.model,
            key=opponents.key,
            timeout=opponents.timeout,
        ) as endpoint:
            row: dict[str, Any] = {
                "url": endpoint.url,
                "kind": endpoint.kind,
                "model": endpoint.model,
                "workload": workload.name,
                "levels": [],
            }
            result.opponents.append(row)
            _sweep(endpoint, workload, row, QUICK if quick else FULL, ours, tell)
            for data in labelled:
                tell(f"{endpoint.url}: {data.name}")
                _judge(endpoint, data, result, seed)


def _sweep(
    endpoint: Endpoint,
    workload: Workload,
    row: dict[str, Any],
    bounds: Bounds,
    ours: Sequence[Mapping[str, Given]] | None,
    tell: Callable[[str], None],
) -> None:
    begun: list[Level] = []

    def begin(level: Level) -> None:
        begun.append(level)
        tell(f"{endpoint.url}: {level.concurrency} in flight")

    try:
        for _ in sweep(endpoint, workload.asks, bounds, begin):
            pass
    finally:  # what was measured before a failure, or Ctrl-C, too
        row["levels"] = [_level(level) for level in begun]
        if ours is not None:
            row["agreement"] = _agreement(begun, ours)


def _level(level: Level) -> dict[str, Any]:
    return {
        "concurrency": level.concurrency,
        "requests": len(level.runs),
        "decisions": level.decisions,
        **percentiles([run.seconds for _, run in level.runs]),
        "decisions_per_s": level.decisions / level.wall if level.wall else None,
        "tokens_computed": sum(run.tokens_computed for _, run in level.runs),
        "tokens_generated": sum(run.tokens_generated for _, run in level.runs),
        "failures": dict(level.failures),
        "down": len(level.lost),
        "complete": level.complete,
    }


def _agreement(levels: Sequence[Level], ours: Sequence[Mapping[str, Given]]) -> float | None:
    """The share of answers that are ours too."""
    pairs = [
        (given.value, ours[number][name].value)
        for level in levels
        for number, run in level.runs
        for name, given in run.given.items()
    ]
    return sum(a == b for a, b in pairs) / len(pairs) if pairs else None


def _judge(endpoint: Endpoint, data: Workload, result: Result, seed: int) -> None:
    bounds = Bounds((4,), requests=len(data.asks), seconds=LABELLED_SECONDS)
    (level,) = sweep(endpoint, data.asks, bounds)
    # What got no answer in its time is wrong, as what can't be read is.
    given: dict[int, Mapping[str, Given]] = {n: _none(data.asks[n]) for n in level.lost}
    given |= {n: run.given for n, run in level.runs}
    if level.lost:
        result.notes.append(
            f"{endpoint.url} gave {len(level.lost)} of the requests of {data.name} no answer "
            f"within {endpoint.timeout:g} s; they count as wrong."
        )
    if len(given) < len(data.asks):
        result.notes.append(
            f"{endpoint.url} got through {len(given)} of the {len(data.asks)} requests of "
            f"{data.name} in {LABELLED_SECONDS:.0f} s; it is judged on those."
        )
    numbers = sorted(n for n in given if data.asks[n].weight > 0.0)
    if not numbers:
        result.notes.append(f"{endpoint.url} isn't judged on {data.name}: nothing came of it.")
        return
    result.quality += rows(
        data.name,
        endpoint.url,
        [data.asks[n] for n in numbers],
        [given[n] for n in numbers],
        seed,
    )


def _none(ask: Ask) -> Mapping[str, Given]:
    return {name: Given(None, failure=NO_ANSWER) for name in ask.questions}
