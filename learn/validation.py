"""`Validator`: the loss of an adapter, as it would be stored, on rows it isn't trained on."""

from __future__ import annotations

import math
import random
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch

from readoff.engine.backbones.decoder import Backbone
from readoff.engine.errors import NumericsError
from readoff.learn.adapter import DTYPES
from readoff.learn.errors import TrainingError
from readoff.learn.examples import Example
from readoff.learn.lora import Lora
from readoff.learn.loss import soft_label_losses
from readoff.learn.passes import Lines, passes
from readoff.learn.settings import Stored


@dataclass(frozen=True)
class Measured:
    """Weighted means over questions. `accuracy`: how often the most probable option has the
    largest target. `families`: the NLL of each."""

    nll: float
    brier: float
    accuracy: float
    families: dict[str, float]
    questions: int


class Validator:
    """Measures always the same rows, in the same forests."""

    def __init__(
        self,
        backbone: Backbone,
        lora: Lora,
        examples: Sequence[Example],
        lines: Lines,
        *,
        micro_tokens: int,
        stored: Stored,
    ) -> None:
        self._backbone, self._lora, self._stored = backbone, lora, stored
        self._passes = list(passes(map(lines.of, examples), micro_tokens))
        self.tokens = sum(one.tokens for one in self._passes)

    @torch.no_grad()
    def measure(self, tell: Callable[[int, int], None] = lambda done, of: None) -> Measured:
        """Measure now; `tell` is called with (tokens done, of how many) before each pass.

        Raises TrainingError where the stored dtype can't hold the adapter, NumericsError where a
        loss isn't finite.
        """
        sums: dict[str, list[float]] = defaultdict(lambda: [0.0] * 4)  # weight, nll, brier, right
        done, questions = 0, 0
        with rounded(self._lora, DTYPES[self._stored]):
            self._check_held()
            for one in self._passes:
                tell(done, self.tokens)
                hidden = self._backbone(one.batch)
                logits = self._backbone.readout(hidden, one.batch).logits
                found = soft_label_losses(logits, one.targets, one.batch.label_offsets)
                counts = [len(line.target) for line in one.lines]
                for line, own in zip(one.lines, logits.split(counts), strict=True):
                    right = float(line.target[int(own.argmax())] == max(line.target))
                    sums[line.family][3] += line.weight * right
                values = zip(one.lines, found.nll.tolist(), found.brier.tolist(), strict=True)
                for line, nll, brier in values:
                    if not math.isfinite(nll):
                        raise NumericsError(
                            f"The validation loss of {line.example.where} isn't a finite number. "
                            "Try a lower learning rate, or fp32."
                        )
                    total = sums[line.family]
                    total[0] += line.weight
                    total[1] += line.weight * nll
                    total[2] += line.weight * brier
                done, questions = done + one.tokens, questions + len(one.lines)
        weight, nll, brier, right = (math.fsum(part) for part in zip(*sums.values(), strict=True))
        families = {name: total[1] / total[0] for name, total in sorted(sums.items())}
        return Measured(nll / weight, brier / weight, right / weight, families, questions)

    def _check_held(self) -> None:
        """Of the rounded matrices: with infinity in them the losses would be blamed on rows."""
        for name, a, b in self._lora.pairs():
            if not (a.isfinite().all() and b.isfinite().all()):
                other = "" if self._stored == "fp32" else " or with --store fp32"
                raise TrainingError(
                    f"The adapter's values in {name} have grown beyond what {self._stored} holds. "
                    f"Begin again (--force) with a lower --lr{other}."
                )


def sample(examples: Sequence[Example], count: int, seed: int) -> list[Example]:
    """At most `count` rows, drawn by `seed`, in their own order."""
    if len(examples) <= count:
        return list(examples)
    chosen = sorted(random.Random(f"validation {seed}").sample(range(len(examples)), count))
    return [examples[i] for i in chosen]


@contextmanager
def rounded(lora: Lora, dtype: torch.dtype) -> Iterator[None]:
    """The matrices as they would be read back from a file of `dtype`; their own bits come back."""
    own = [matrix.data for matrix in lora.parameters()]
    try:
        for matrix in lora.parameters():
            matrix.data = matrix.data.to(dtype).float()
        yield
    finally:
        for matrix, data in zip(lora.parameters(), own, strict=True):
            matrix.data = data
