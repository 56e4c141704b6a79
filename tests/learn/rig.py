"""Tiny models, adapters and rows that the tests of training share."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch

from readoff.engine.backbones.decoder import Backbone
from readoff.engine.checkpoint import open_checkpoint
from readoff.engine.loading import find_card, load_renderer
from readoff.engine.prompt import Renderer
from readoff.learn.examples import Example, parse_example
from readoff.learn.lora import Lora
from readoff.learn.loss import soft_label_losses
from readoff.learn.passes import Line, Lines, passes

ROUTE = {"type": "choice", "instructions": "Which team?", "criteria": dict.fromkeys("abc")}
ANGRY = {"type": "score", "criteria": ["calm", "cross", "wild"]}
DUE = {"type": "noul", "instructions": "It is due."}
QUESTIONS = {"route": ROUTE, "angry": ANGRY, "due": DUE}
ANSWERS: Mapping[str, Any] = {"route": "b", "angry": {"0": 0.25, "2": 0.75}, "due": True}


def row(state: object = "Paid twice.", **fields: Any) -> dict[str, Any]:
    """A row with three questions, as a JSON object."""
    return {"state": state, "questions": QUESTIONS, "answers": dict(ANSWERS)} | fields


def example(state: object = "Paid twice.", **fields: Any) -> Example:
    """The same, read."""
    return parse_example(json.dumps(row(state, **fields)).encode(), "rows, line 1")


def write_rows(path: Path, rows: Iterable[Mapping[str, Any]]) -> Path:
    """Rows as a file of JSON lines."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(one) + "\n" for one in rows), encoding="utf-8")
    return path


def load(folder: Path, dtype: torch.dtype = torch.float32) -> tuple[Backbone, Renderer]:
    """The backbone with plain weights, and the renderer, of a model folder."""
    checkpoint = open_checkpoint(folder)
    renderer = load_renderer(checkpoint, find_card(checkpoint))
    device = torch.device("cpu")
    return Backbone.load(checkpoint.config, checkpoint, dtype, device), renderer


@torch.no_grad()
def randomise(lora: Lora, seed: int = 0, scale: float = 0.1) -> None:
    """Every matrix from one generator, so that B isn't zero."""
    generator = torch.Generator().manual_seed(seed)
    for matrix in lora.parameters():
        matrix.copy_(torch.randn(matrix.shape, generator=generator) * scale)


def gradients(
    backbone: Backbone, lora: Lora, groups: Iterable[list[Line]], limit: int = 10_000
) -> dict[str, torch.Tensor]:
    """The gradient of the weighted mean loss by module and letter, over forests of `limit`
    tokens."""
    groups = list(groups)
    total = sum(line.weight for lines in groups for line in lines)
    for matrix in lora.parameters():
        matrix.grad = None
    for part in passes(groups, limit):
        logits = backbone.readout(backbone(part.batch), part.batch).logits
        losses = soft_label_losses(logits, part.targets, part.batch.label_offsets)
        (losses.total * part.weights / total).sum().backward()  # type: ignore[no-untyped-call]
    found = {}
    for name, a, b in lora.pairs():
        assert a.grad is not None
        assert b.grad is not None
        found |= {f"{name}.A": a.grad.clone(), f"{name}.B": b.grad.clone()}
    return found


def lines_of(renderer: Renderer, examples: Iterable[Example]) -> list[list[Line]]:
    """The lines of rows, row by row."""
    return [Lines(renderer).of(one) for one in examples]
