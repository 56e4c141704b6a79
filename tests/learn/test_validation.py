"""Validation of adapters that can't be stored."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from readoff.learn.errors import TrainingError
from readoff.learn.lora import Lora
from readoff.learn.passes import Lines
from readoff.learn.settings import Stored
from readoff.learn.validation import Validator

from .rig import example, load


def test_what_the_stored_dtype_cannot_hold_is_blamed_on_it(model: Path) -> None:
    """Not on the row whose loss is no number then."""
    backbone, renderer = load(model)
    lora = Lora(backbone, ("q_proj",), 2, 4.0, 0)

    def validator(stored: Stored) -> Validator:
        lines = Lines(renderer)
        return Validator(backbone, lora, [example()], lines, micro_tokens=2000, stored=stored)

    _, a, _ = next(lora.pairs())
    with torch.no_grad():
        a.fill_(1e6)
    assert validator("fp32").measure().questions == 3  # B is zero
    with pytest.raises(TrainingError, match=r"q_proj .*what fp16 holds.*--store fp32"):
        validator("fp16").measure()
    assert (a == 1e6).all()
