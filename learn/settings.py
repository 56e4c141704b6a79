"""`Settings`: everything that decides what a training does to a model, as published by default."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from readoff.kernels.linear import Kind
from readoff.learn.errors import TrainingError
from readoff.learn.loss import LAMBDA

Stored = Literal["fp16", "bf16", "fp32"]


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Two runs with equal settings, data, base, build and threads give equal bits.

    `batch` counts questions, `micro_tokens` what goes through the model at once, in `at_once`
    passes (never more than there are threads), `max_tokens` the longest prompt (a state with one
    question). `warmup` is a share of the steps. `limit_minutes`
    is the time the whole training may take: its steps then follow the clock. `eval_every` counts
    steps, `patience` evaluations without a better validation NLL (0: never stop early).
    `quantize` ("int8") multiplies the frozen weights of the `targets` in 8 bits; the matrices that
    are trained never are.
    """

    seed: int = 0
    epochs: int = 1
    max_steps: int | None = None
    limit_minutes: float | None = None
    batch: int = 132
    micro_tokens: int = 1536
    at_once: int = 2
    max_tokens: int = 2048
    skip_long: bool = False
    learning_rate: float = 5e-5
    warmup: float = 0.05
    weight_decay: float = 0.0
    clip: float = 1.0
    brier_weight: float = LAMBDA
    hard: bool = False
    permute: bool = False
    rank: int = 16
    alpha: float = 32.0
    targets: tuple[str, ...] | None = None
    valid_share: float = 0.05
    eval_every: int = 25
    eval_rows: int = 400
    patience: int = 3
    stored: Stored = "fp16"
    quantize: Kind | None = None

    def __post_init__(self) -> None:
        for name in (
            "epochs",
            "batch",
            "micro_tokens",
            "max_tokens",
            "rank",
            "eval_every",
            "at_once",
        ):
            self._check(name, getattr(self, name) >= 1, "1 or more")
        self._check("eval_rows", self.eval_rows >= 1, "1 or more")
        for name in ("max_steps", "limit_minutes"):
            value = getattr(self, name)
            self._check(name, value is None or 0 < value < math.inf, "above 0")
        for name in ("learning_rate", "clip", "alpha"):
            self._check(name, 0.0 < getattr(self, name) < math.inf, "a number above 0")
        for name in ("weight_decay", "brier_weight", "patience", "seed"):
            self._check(name, 0.0 <= getattr(self, name) < math.inf, "0 or more")
        self._check("warmup", 0.0 <= self.warmup < 1.0, "from 0 to below 1")
        self._check("valid_share", 0.0 < self.valid_share < 1.0, "between 0 and 1")
        if self.stored not in ("fp16", "bf16", "fp32"):
            raise TrainingError(f'An adapter is stored as fp16, bf16 or fp32, not "{self.stored}".')

        if self.quantize not in (None, "int8"):
            raise TrainingError(
                f'Training multiplies frozen weights in int8 or in full, not in "{self.quantize}". '
                "Use --quantize int8, or leave it out."
            )

    def _check(self, name: str, holds: bool, allowed: str) -> None:
        if not holds:
            raise TrainingError(f"{name} must be {allowed}, not {getattr(self, name)}.")

    def to_json(self) -> dict[str, Any]:
        """The settings as JSON values."""
        found = asdict(self)
        found["targets"] = None if self.targets is None else list(self.targets)
        return found


def differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """What tells two JSON documents of settings apart: one phrase for each field."""
    return [
        f"{name} was {before.get(name)} and is {now.get(name)}"
        for name in sorted(before.keys() | now.keys())
        if before.get(name) != now.get(name)
    ]
