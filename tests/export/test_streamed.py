"""The pass that holds one layer at a time reads what the backbone reads."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from readoff.engine.backbones.decoder import Backbone
from readoff.engine.card import Card
from readoff.engine.card_fields import Temperature
from readoff.engine.checkpoint import Checkpoint, open_checkpoint
from readoff.engine.errors import NumericsError
from readoff.engine.forest import Forest
from readoff.engine.loading import load_renderer
from readoff.export.difference import PROBES, compare
from readoff.export.streamed import streamed_readouts
from tests.engine.models_on_disk import save_decider
from tests.models import ARCHITECTURES, Architecture, save_tiny


def tree() -> Forest:
    """A shared beginning, two questions of which one repeats a token, and a stranger."""
    forest = Forest()
    state = tuple(range(20, 90))
    forest.read(forest.add([state, (7,) * 65]), (3, 400, 9), (0.5, 0.0, -1.0), 2.0)
    forest.read(forest.add([state, (5, 6)]), (9, 8))
    forest.read(forest.add([(11,)]), (1,))
    return forest


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("tied", [True, False])
def test_equals_the_backbone(tmp_path: Path, architecture: Architecture, tied: bool) -> None:
    save_tiny(tmp_path, architecture, tied=tied)
    checkpoint, batch = open_checkpoint(tmp_path), tree().batch()
    backbone = Backbone.load(
        checkpoint.config, checkpoint, torch.float32, torch.device("cpu"), pack=False
    )
    expected = backbone.readout(backbone(batch), batch)
    layers: list[tuple[int, int]] = []
    other = Forest()
    other.read(other.add([(1, 2, 3)]), (4, 5))
    found, _ = streamed_readouts(
        checkpoint, [batch, other.batch()], lambda done, of: layers.append((done, of))
    )
    torch.testing.assert_close(found.logits, expected.logits, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(found.probabilities, expected.probabilities, rtol=1e-5, atol=1e-5)
    assert layers == [(1, 4), (2, 4), (3, 4), (4, 4)]


class Changed(Checkpoint):
    """`base` with one tensor multiplied by a factor."""

    def __init__(self, base: Checkpoint, name: str, factor: float) -> None:
        self.base, self.config, self.name, self.factor = base, base.config, name, factor

    def read_rows(self, name: str, start: int, stop: int) -> torch.Tensor:
        rows = self.base.read_rows(name, start, stop)
        return rows * self.factor if name == self.name else rows

    def digest(self) -> str:
        return "changed"

    @property
    def folders(self) -> tuple[Path, ...]:
        return self.base.folders

    @property
    def tokenizer_files(self) -> Path:
        return self.base.tokenizer_files


def test_the_difference_of_a_known_change(tmp_path: Path) -> None:
    """Norm weights halved: all logits halve, so that nothing but the scale changes."""
    save_decider(tmp_path, "qwen2", layers=2)
    checkpoint, card = open_checkpoint(tmp_path), Card.default()
    renderer = load_renderer(checkpoint, card)
    same = compare(checkpoint, checkpoint, renderer, card)
    assert same is not None
    assert (same.logit, same.probability, same.changed) == (0.0, 0.0, 0)
    assert same.questions == sum(len(questions) for _, questions in PROBES)
    half = compare(checkpoint, Changed(checkpoint, "model.norm.weight", 0.5), renderer, card)
    assert half is not None
    assert half.logit == pytest.approx(half.largest_logit / 2, rel=1e-5)
    assert half.changed == 0
    assert 0.01 < half.probability < 1
    negative = compare(checkpoint, Changed(checkpoint, "model.norm.weight", -1.0), renderer, card)
    assert negative is not None
    assert negative.changed > same.questions / 2
    hot = Card(temperature=Temperature(choice=50.0, score=50.0, noul=50.0))
    damped = compare(checkpoint, Changed(checkpoint, "model.norm.weight", 0.5), renderer, hot)
    assert damped is not None
    assert damped.logit == half.logit
    assert damped.probability < half.probability / 5  # the card's temperature is in it


def test_numbers_that_are_not_finite(tmp_path: Path) -> None:
    save_decider(tmp_path, "qwen2", layers=1)
    checkpoint, card = open_checkpoint(tmp_path), Card.default()
    broken = Changed(checkpoint, "model.norm.weight", float("nan"))
    with pytest.raises(NumericsError, match="aren't finite"):
        compare(checkpoint, broken, load_renderer(checkpoint, card), card)


def test_a_context_too_short_for_any_probe(tmp_path: Path) -> None:
    save_decider(tmp_path, "qwen2", layers=1, max_position_embeddings=100)
    checkpoint, card = open_checkpoint(tmp_path), Card.default()
    assert compare(checkpoint, checkpoint, load_renderer(checkpoint, card), card) is None
