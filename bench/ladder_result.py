"""What a ladder tells while it runs, and what it found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from readoff.bench.gate import Bounds
from readoff.bench.records import Run, RungReport, Workload

Phase: TypeAlias = Literal["prepare", "yardstick", "gate", "measure"]


@dataclass(frozen=True)
class Progress:
    """What is going on: `done` of `total` requests of this phase. `seconds` has what the rung has
    been measured at so far."""

    workload: str
    rung: str
    phase: Phase
    done: int
    total: int
    seconds: Sequence[float] = ()


@dataclass(frozen=True)
class LadderResult:
    """One workload's findings.

    `answers` are those that passed the gates, one run a request by rung. `modelled` holds
    `1 + n · t_token / t_prefill` of the generating rungs, `skipped` why a rung didn't run.
    `interrupted`: the reports hold what was measured before Ctrl-C.
    """

    workload: Workload
    reports: Sequence[RungReport]
    titles: Mapping[str, str]
    answers: Mapping[str, Sequence[Run]]
    modelled: Mapping[str, float]
    skipped: Mapping[str, str]
    bounds: Bounds | None
    interrupted: bool = False
