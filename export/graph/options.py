"""What can be chosen about an exported graph. No torch and no onnx in this file."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from readoff.engine.calibration import check_temperature
from readoff.engine.errors import ExportError

Flavour = Literal["standard", "contrib"]
Precision = Literal["fp32", "fp16", "int8", "int4"]

OPSET = 17
"""Of the standard operators: everything here exists in it, so a newer one would only cost reach."""
IR_VERSION = 8
"""The file format that came with opset 17."""
OLDEST_RUNTIME = "1.15.0"
"""The oldest ONNX Runtime that standard graphs were tried on; beside numpy 2 it is 1.19."""
OLDEST_CONTRIB_RUNTIME = "1.32.0"
"""The same for the contrib flavour, whose `GatedDeltaNet` and `CausalConvWithState` are recent."""

BLOCK_SIZES = (16, 32, 64, 128)


@dataclass(frozen=True)
class LabelBank:
    """Only these token ids can be asked for; the rest of the vocabulary head isn't exported.

    The graph's inputs stay the same; an id that isn't in the bank is an error when it runs.
    """

    ids: tuple[int, ...]

    def __post_init__(self) -> None:
        _check_ids(self.ids)


@dataclass(frozen=True)
class FixedLabels:
    """One kind of question, its labels with their prior and temperature: no inputs are left."""

    ids: tuple[int, ...]
    prior: tuple[float, ...] = ()
    temperature: float = 1.0

    def __post_init__(self) -> None:
        _check_ids(self.ids)
        check_temperature(self.temperature)
        if self.prior and len(self.prior) != len(self.ids):
            raise ExportError(
                f"The prior has {len(self.prior)} numbers for {len(self.ids)} labels. Give each "
                "label one."
            )
        if not all(math.isfinite(value) for value in self.prior):
            raise ExportError("The prior holds values that aren't finite numbers.")


@dataclass(frozen=True, kw_only=True)
class GraphOptions:
    """`flavour`: standard operators only, or ONNX Runtime's own where they exist. `precision`: of
    weights and products; norms, softmax, decays and recurrent states are fp32 always.

    `labels`: what of the head is exported, None for all of it. `block`: how many weights of a row
    share a scale where weights have 4 bits, and 8 in the contrib flavour. `kept`: linear layers
    that stay in fp32 all the same, by the last part of their name ("down_proj"). `fine`: 8-bit
    products take finer inputs where those of an MLP are widely spread: about a third less
    error of probabilities for a fifth more time. 4-bit graphs, which aren't for speed, always do.
    """

    flavour: Flavour = "standard"
    precision: Precision = "fp32"
    labels: LabelBank | FixedLabels | None = None
    block: int = 32
    kept: frozenset[str] = frozenset()
    fine: bool = False

    def __post_init__(self) -> None:
        if self.block not in BLOCK_SIZES:
            raise ExportError(f"The block must be one of {BLOCK_SIZES}, not {self.block}.")
        if self.fine and (self.precision, self.flavour) != ("int8", "standard"):
            raise ExportError(
                f"fine is for int8 in the standard flavour, not for {self.precision} in the "
                f"{self.flavour} one."
            )

    @property
    def fine_inputs(self) -> bool:
        """Whether some 8-bit products take finer inputs."""
        return self.fine or self.precision == "int4"

    @property
    def uses_contrib(self) -> bool:
        """Whether the graph has operators that only ONNX Runtime knows."""
        return self.flavour == "contrib" or self.precision == "int4"


def _check_ids(ids: tuple[int, ...]) -> None:
    if not ids or len(set(ids)) != len(ids) or min(ids) < 0:
        raise ExportError("Labels to export must be different token ids, one at least.")
