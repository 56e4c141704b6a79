"""Runs exported graphs, and our own backbone on the same tokens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import torch
from numpy.typing import NDArray

from readoff.engine.backbones.decoder import Backbone
from readoff.engine.checkpoint import Checkpoint, open_checkpoint
from readoff.engine.forest import Forest
from readoff.export.graph import interface
from readoff.export.graph.model import build_model
from readoff.export.graph.options import FixedLabels, GraphOptions
from readoff.export.graph.save import to_bytes
from tests.models import Architecture, save_tiny

Array = NDArray[Any]
Values = Mapping[str, Array]
Ids = Sequence[int]
LABELS = tuple(range(3, 60))


@dataclass
class Graph:
    """An exported graph in a session; `last` is what its latest run returned."""

    checkpoint: Checkpoint
    options: GraphOptions = field(default_factory=GraphOptions)
    model: bytes = b""

    def __post_init__(self) -> None:
        self.model = self.model or to_bytes(build_model(self.checkpoint, self.options))
        settings = onnxruntime.SessionOptions()
        settings.intra_op_num_threads = 1
        self.session = onnxruntime.InferenceSession(
            self.model, settings, providers=["CPUExecutionProvider"]
        )
        self.last: dict[str, Array] = {}

    def empty(self) -> dict[str, Array]:
        """A past of no tokens."""
        past = {}
        for c in interface.carried(self.checkpoint.config, self.options):
            sizes = {"past_batch": 1, "past": 0}
            shape = [sizes[d] if isinstance(d, str) else d for d in c.past.shape]
            past[c.past.name] = np.zeros(shape, c.past.dtype)
        return past

    def run(
        self,
        rows: Sequence[Ids],
        past: Values | None = None,
        past_lengths: Sequence[int] = (0,),
        labels: Sequence[Ids] | None = None,
        prior: Sequence[Sequence[float]] | None = None,
        temperature: Sequence[float] | None = None,
        padding: int = 7,
    ) -> Array:
        """Logits [B, L] of `rows`, padded to the longest with the token `padding`."""
        labels = labels or [LABELS] * len(rows)
        prior = prior or [[0.0] * len(row) for row in labels]
        feeds: dict[str, Array] = {
            interface.TOKENS: padded(rows, np.int64, padding),
            interface.LENGTHS: np.array([len(row) for row in rows]),
            interface.PAST_LENGTHS: np.array(past_lengths),
        }
        if not isinstance(self.options.labels, FixedLabels):
            feeds |= {
                interface.LABEL_IDS: padded(labels, np.int64),
                interface.LABEL_COUNTS: np.array([len(row) for row in labels]),
                interface.PRIOR: padded(prior, np.float32),
                interface.TEMPERATURE: np.array(temperature or [1.0] * len(rows), np.float32),
            }
        names = [value.name for value in self.session.get_outputs()]
        found = self.session.run(names, feeds | dict(self.empty() if past is None else past))
        self.last = dict(zip(names, found, strict=True))
        return self.last[interface.LOGITS]

    def after(self, past: Values, past_length: int, row: int, length: int) -> dict[str, Array]:
        """The past of one row of the latest run, whose true tokens were `length`."""
        made = {}
        for c in interface.carried(self.checkpoint.config, self.options):
            new = self.last[c.new.name][row : row + 1]
            if c.kind in ("key", "value"):
                before = past[c.past.name]
                before = before[row if len(before) > 1 else 0][None, :past_length]
                new = np.concatenate([before, new[:, :length]], axis=1)
            made[c.past.name] = new
        return made


def padded(rows: Sequence[Sequence[Any]], dtype: type[np.generic], value: int = 0) -> Array:
    """Rows of different lengths as one matrix, filled up behind."""
    made: Array = np.full((len(rows), max(map(len, rows))), value, dtype)
    for line, row in zip(made, rows, strict=True):
        line[: len(row)] = row
    return made


def tiny(folder: Path, architecture: Architecture, **options: Any) -> Checkpoint:
    """A seeded tiny checkpoint on the disk (`options` as in `tiny_model`)."""
    save_tiny(folder, architecture, **options)
    return open_checkpoint(folder)


class Reference:
    """Our own backbone in fp32, cold."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        cpu = torch.device("cpu")
        self.backbone = Backbone.load(checkpoint.config, checkpoint, torch.float32, cpu)

    def logits(self, rows: Sequence[Sequence[Ids]], labels: Ids = LABELS) -> Array:
        """[B, L] for rows that are chains of pieces."""
        forest = Forest()
        for pieces in rows:
            forest.read(forest.add([tuple(p) for p in pieces if len(p)]), labels)
        batch = forest.batch()
        readout = self.backbone.readout(self.backbone(batch), batch)
        found: Array = readout.logits.view(len(rows), -1).numpy()
        return found


def ids(count: int, seed: int, vocab: int = 512) -> list[int]:
    """Random token ids."""
    made: list[int] = np.random.default_rng(seed).integers(0, vocab, count).tolist()
    return made
