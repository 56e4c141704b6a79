"""The inverse inside the delta rule's chunks."""

from __future__ import annotations

import pytest
import torch

from readoff.kernels.gated_delta.inverse import unit_inverse


def lower(width: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    """Random; what lies on and above the diagonal is to be ignored."""
    generator = torch.Generator().manual_seed(seed)
    return 0.3 * torch.randn(5, width, width, generator=generator, dtype=dtype)


@pytest.mark.parametrize("width", [16, 32, 48, 64])
def test_against_the_library(width: int) -> None:
    x = lower(width)
    expected = torch.linalg.inv(torch.eye(width, dtype=x.dtype) + x.tril(-1))
    torch.testing.assert_close(unit_inverse(x), expected, rtol=1e-9, atol=1e-9)
    narrow = unit_inverse(x.float())
    assert narrow.dtype == torch.float32
    torch.testing.assert_close(narrow.double(), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("width", [16, 32, 48, 64])
def test_equal_keys(width: int) -> None:
    """β kᵀk = 0.95 everywhere below the diagonal: row i of the inverse is -0.95 · 0.05^(i-j-1)."""
    found = unit_inverse(torch.full((1, width, width), 0.95))[0]
    i, j = torch.meshgrid(torch.arange(width), torch.arange(width), indexing="ij")
    below = -0.95 * torch.tensor(0.05) ** (i - j - 1).clamp(min=0).float()
    expected = torch.where(i > j, below, (i == j).float())
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-6)


def test_a_matrix_alone_and_among_others() -> None:
    x = lower(48, dtype=torch.float32)
    assert torch.equal(unit_inverse(x[2:3])[0], unit_inverse(x)[2])


@pytest.mark.parametrize("width", [16, 48])
def test_gradients(width: int) -> None:
    x = lower(width)[:1].requires_grad_()
    assert torch.autograd.gradcheck(unit_inverse, (x,), fast_mode=True)
