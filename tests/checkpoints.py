"""Reads whole checkpoints and compares them."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from readoff.engine.checkpoint import Checkpoint


def contents(checkpoint: Checkpoint, dtype: torch.dtype = torch.float32) -> dict[str, torch.Tensor]:
    """Every tensor of a checkpoint, copied into memory that held NaN before."""
    tensors = {}
    for name in checkpoint.names():
        tensors[name] = torch.full(checkpoint.shape(name), float("nan"), dtype=dtype)
        checkpoint.copy_into(name, tensors[name])
    return tensors


def assert_same(found: Mapping[str, torch.Tensor], expected: Mapping[str, torch.Tensor]) -> None:
    """Equal names, shapes and bits."""
    assert found.keys() == expected.keys()
    for name, tensor in expected.items():
        assert torch.equal(found[name], tensor), name


def assert_close(found: Mapping[str, torch.Tensor], expected: Mapping[str, torch.Tensor]) -> None:
    """Equal names and shapes, values within the rounding of one fp32 sum."""
    assert found.keys() == expected.keys()
    for name, tensor in expected.items():
        torch.testing.assert_close(found[name], tensor, rtol=1e-6, atol=1e-6, msg=name)
