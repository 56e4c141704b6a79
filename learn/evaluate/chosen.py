"""`Chosen`: what is evaluated on what, and how."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from readoff.engine.card_fields import Debias
from readoff.learn.evaluate.subject import Options

Tell: TypeAlias = Callable[[str, int, int], None]
"""Called with (what, done, of how many)."""


@dataclass(frozen=True)
class Chosen:
    """What is evaluated on what. `logits` is where answers of the models are kept."""

    model: str
    adapter: Path
    test: tuple[Path, ...]
    logits: Path
    bigbench: Path | None = None
    fit: Path | None = None
    json_rows: int = 50
    debias: Debias = "both"
    task_rows: int | None = None
    seed: int = 0
    resamples: int = 1000
    options: Options = field(default_factory=Options)
