"""The opponent computes with the very weights of the checkpoint."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from readoff.bench.transformers_model import transformers_model
from readoff.engine.checkpoint import open_checkpoint
from tests.models import ARCHITECTURES, Architecture, save_tiny

IDS = torch.tensor([[5, 9, 200, 9, 33, 1, 0, 77]])


@pytest.mark.parametrize("tied", [True, False], ids=["tied", "untied"])
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_it_equals_the_saved_model(architecture: Architecture, tied: bool, tmp_path: Path) -> None:
    saved = save_tiny(tmp_path, architecture, tied=tied, seed=3)
    rebuilt = transformers_model(open_checkpoint(tmp_path), dtype=torch.float32)
    with torch.inference_mode():
        expected, found = saved(IDS).logits, rebuilt(IDS).logits
    assert expected.std() > 0.1
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)


def test_it_is_on_no_meta_device_and_of_one_dtype(tmp_path: Path) -> None:
    save_tiny(tmp_path, "qwen3_5")
    model = transformers_model(open_checkpoint(tmp_path), dtype=torch.bfloat16)
    tensors = [*model.parameters(), *model.buffers()]
    assert {tensor.device.type for tensor in tensors} == {"cpu"}
    assert {parameter.dtype for parameter in model.parameters()} == {torch.bfloat16}
    assert not model.training
