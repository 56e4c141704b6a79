"""The causal convolution over segments against the tap-by-tap reference."""

from __future__ import annotations

import pytest
import torch

from readoff.kernels.causal_conv import causal_conv
from readoff.kernels.causal_conv.reference import causal_conv as reference

from .forests import TREES, Tree, relative_error, segments


def operands(
    tree: Tree, taps: int = 4, dtype: torch.dtype = torch.float32
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    torch.manual_seed(2)
    s = segments(tree)
    tails = torch.full((s.slots, taps - 1, 24), torch.nan)
    tails[0] = 0.0
    tails[1] = torch.randn(taps - 1, 24)
    wide = torch.randn(s.tokens, 40).to(dtype)
    return wide[:, 7:31], torch.randn(24, taps).to(dtype), tails.to(dtype)


@pytest.mark.parametrize("tree", TREES.values(), ids=TREES.keys())
@pytest.mark.parametrize("taps", [2, 4])
@pytest.mark.parametrize("roots_from", [0, 1], ids=["from zero", "from a tail"])
def test_equals_the_reference(tree: Tree, taps: int, roots_from: int) -> None:
    x, weight, tails = operands(tree, taps)
    s = segments(tree, roots_from)
    other = tails.clone()
    wanted = reference(x, weight, other, *s.args())
    before = causal_conv.calls["cpu"]
    found = causal_conv(x, weight, tails, *s.args())
    assert causal_conv.calls["cpu"] == before + 1
    assert relative_error(found, wanted) <= 1e-6
    assert torch.equal(tails, other)


def test_bf16_stays_near_fp32() -> None:
    x, weight, tails = operands(TREES["deep"], dtype=torch.bfloat16)
    s = segments(TREES["deep"])
    wanted = reference(x.float(), weight.float(), tails.float(), *s.args())
    assert relative_error(causal_conv(x, weight, tails, *s.args()), wanted) <= 1e-2


@pytest.mark.parametrize("length", [1, 2, 3, 4, 5])
def test_a_loud_neighbour_is_not_heard(length: int) -> None:
    """Pitfall 4: packed rows bleed across a border by way of the convolution."""
    tree: Tree = [(6, -1), (length, 0), (9, 0)]
    x, weight, tails = operands(tree)
    s = segments(tree)
    quiet = causal_conv(x, weight, tails.clone(), *s.args())
    loud = x.clone()
    loud[6 : 6 + length] = 1e4
    heard = causal_conv(loud, weight, tails.clone(), *s.args())
    assert torch.equal(heard[6 + length :], quiet[6 + length :])


@pytest.mark.parametrize("tree", [[(3, -1), (0, 0), (4, 1)], [(0, -1), (5, 0)]])
def test_empty_segments_pass_the_tail_on(tree: Tree) -> None:
    x, weight, tails = operands(tree)
    s = segments(tree, roots_from=1)
    other = tails.clone()
    wanted = reference(x, weight, other, *s.args())
    assert relative_error(causal_conv(x, weight, tails, *s.args()), wanted) <= 1e-6
    assert torch.equal(tails, other)


def test_gradients_equal_those_of_the_reference() -> None:
    tree = TREES["deep"]
    x, weight, tails = operands(tree)
    s = segments(tree)
    gradients = []
    for function in (causal_conv, reference):
        leaves = [x.clone().requires_grad_(), weight.clone().requires_grad_()]
        out = function(*leaves, tails.clone(), *s.args())
        (out * torch.linspace(-1, 1, out.numel()).view_as(out)).sum().backward()
        gradients.append([leaf.grad for leaf in leaves])
    for found, wanted in zip(*gradients, strict=True):
        assert found is not None
        assert wanted is not None
        assert relative_error(found, wanted) <= 1e-5
