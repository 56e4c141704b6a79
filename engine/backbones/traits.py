"""What tells the three architectures apart."""

from __future__ import annotations

from dataclasses import dataclass

from readoff.engine.config import Architecture


@dataclass(frozen=True)
class Traits:
    """qk_norm: queries and keys are normalised by head. plus_one: norms multiply by 1 + w.
    output_gate: the query projection carries a sigmoid gate for the attention's output."""

    qk_norm: bool
    plus_one: bool
    output_gate: bool


TRAITS: dict[Architecture, Traits] = {
    "qwen2": Traits(qk_norm=False, plus_one=False, output_gate=False),
    "qwen3": Traits(qk_norm=True, plus_one=False, output_gate=False),
    "qwen3_5": Traits(qk_norm=True, plus_one=True, output_gate=True),
}
