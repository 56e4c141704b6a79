"""Which rungs run on a workload, and for how long: what keeps a run within its time."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from readoff.bench.records import Ask, Workload

JSON = frozenset({"L0", "L1", "L1j"})
CURVE = frozenset({"L1j", "L2t", "L3", "L4", "L5"})
"""What the points of a curve need: the strongest opponent, and ours with and without sharing."""
STEP = frozenset({"L3", "L4", "L6"})
QUICK_STEP = frozenset({"L4", "L6"})
GLANCE = frozenset({"L0", "L1", "L2t", "L4", "L5"})
"""The rungs that targets speak of, for a language that a quick run only looks in on."""
EIGHT = frozenset({"L1", "L1j", "L2t", "L3", "L4", "L5"})

MOST_JSON_QUESTIONS = 8
"""No JSON is generated for requests of more questions: on a CPU each takes seconds."""


@dataclass(frozen=True)
class Effort:
    """`repeats` timed rounds at most, `least` at least; in between none begins after `seconds`."""

    repeats: int
    least: int
    seconds: float


QUICK_LATE = 90.0
"""After this long a quick run times what it begins but once: the machine is slow or busy."""

QUICK_SECONDS = 130.0
"""After this long a quick run begins no workload that can be spared: it ends in three minutes."""


def spared(workload: Workload, elapsed: float, *, quick: bool) -> bool:
    """Whether `workload` is left out because a quick run's time is up after `elapsed` seconds."""
    return quick and elapsed > QUICK_SECONDS and workload.kind in ("search", "paper")


def rungs_for(
    workload: Workload, names: Sequence[str], *, quick: bool, wanted: Collection[str] | None
) -> list[str]:
    """Those of `names` that run on `workload`. `wanted`, the user's own choice, has the last
    word: what it names runs everywhere."""
    if wanted is not None:
        return [name for name in names if name in wanted]
    questions = max((len(ask.questions) for ask in workload.asks), default=0)
    chosen = set(names)
    if workload.kind == "search":
        chosen &= QUICK_STEP if quick else STEP
    elif workload.kind == "paper" and quick and len(workload.asks) == 1:
        chosen &= GLANCE
    elif workload.kind == "many" and quick:
        chosen &= EIGHT if questions > 1 else CURVE
    elif questions > MOST_JSON_QUESTIONS:
        chosen -= JSON
    return [name for name in names if name in chosen]


def effort(workload: Workload, *, quick: bool, repeats: int | None, elapsed: float = 0.0) -> Effort:
    """How much a workload is worth, `elapsed` seconds into the run. `repeats`, the user's own
    choice, is kept exactly."""
    if repeats is not None:
        return Effort(repeats, repeats, float("inf"))
    if quick and elapsed > QUICK_LATE:
        return Effort(5, 1, 0.0)
    if not quick:
        return Effort(10, 3, 120.0)
    if workload.kind == "paper" and len(workload.asks) > 1:
        return Effort(8, 2, 30.0)
    if workload.kind == "many":
        alone = all(len(ask.questions) == 1 for ask in workload.asks)
        return Effort(5, 2, 4.0 if alone else 15.0)
    return Effort(3, 1, 4.0)


def sample(workloads: Iterable[Workload], *, quick: bool) -> list[Ask]:
    """Requests to measure the gates' bounds on: some of every workload but the largest. A quick
    run has time for a dozen questions."""
    chosen = []
    for workload in workloads:
        if quick and workload.kind == "search":
            continue
        few = workload.asks[: 1 if quick or workload.kind == "many" else 4]
        chosen += [ask for ask in few if len(ask.questions) <= MOST_JSON_QUESTIONS]
    return chosen
