"""The rungs in their order, ready for a ladder."""

from __future__ import annotations

from collections.abc import Collection

import torch

from readoff.bench.rungs.batched_callers import BatchedCallers
from readoff.bench.rungs.first_token import FirstToken
from readoff.bench.rungs.greedy_json import GreedyJson
from readoff.bench.rungs.label_rows import LabelRows
from readoff.bench.rungs.opponent import Opponent
from readoff.bench.rungs.rung import Rung
from readoff.bench.rungs.shared_state import SharedState
from readoff.bench.rungs.strong_json import StrongJson
from readoff.bench.rungs.warm_state import WarmState
from readoff.bench.rungs.whole_head import WholeHead
from readoff.engine.checkpoint import Checkpoint
from readoff.engine.errors import ReadoffError

RUNGS = ("L0", "L1", "L1j", "L2t", "L2", "L3", "L4", "L5", "L6")


def standard_rungs(
    checkpoint: Checkpoint,
    dtype: torch.dtype,
    device: torch.device | str = "cpu",
    only: Collection[str] | None = None,
) -> list[Rung]:
    """New rungs, lowest first; `only` names those wanted. L0 and L2t share one model.

    Nothing is loaded yet. Raises ReadoffError for a name that doesn't exist.
    """
    unknown = sorted(set(only or ()) - set(RUNGS))
    if unknown:
        raise ReadoffError(f"There is no rung {unknown[0]!r}; there are {', '.join(RUNGS)}.")
    opponent = Opponent(checkpoint, dtype, device)
    rungs: list[Rung] = [
        GreedyJson(opponent),
        StrongJson(),
        StrongJson(jump=True),
        FirstToken(opponent),
        WholeHead(),
        LabelRows(),
        SharedState(),
        WarmState(),
        BatchedCallers(),
    ]
    return [rung for rung in rungs if only is None or rung.name in only]
