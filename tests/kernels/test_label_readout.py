"""The readout of label rows, and the streamed partition function."""

from __future__ import annotations

import pytest
import torch

from readoff.engine.calibration import probabilities as calibrated
from readoff.kernels.label_readout import cpu, label_readout, log_partition
from readoff.kernels.label_readout import reference as naive

from .forests import relative_error

HIDDEN, VOCAB = 32, 700


def operands(
    counts: list[int], dtype: torch.dtype = torch.float32
) -> tuple[tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor], tuple[torch.Tensor, ...]]:
    torch.manual_seed(5)
    hidden, head = torch.randn(50, HIDDEN).to(dtype), torch.randn(VOCAB, HIDDEN).to(dtype)
    rows = torch.randint(0, 50, (len(counts),))
    offsets = torch.tensor([0, *counts]).cumsum(0)
    ids = torch.cat([torch.randperm(VOCAB)[:n] for n in counts])
    prior, temperature = torch.randn(len(ids)), torch.rand(len(counts)) + 0.5
    return (hidden, head, rows, torch.randn(HIDDEN).to(dtype)), (offsets, ids, prior, temperature)


@pytest.mark.parametrize("plus_one", [False, True])
@pytest.mark.parametrize("counts", [[2], [2, 255, 3, 10], [27, 53, 100, 255]], ids=str)
def test_equals_the_reference(counts: list[int], plus_one: bool) -> None:
    table, labels = operands(counts)
    found = label_readout(*table, 1e-6, plus_one, *labels)
    wanted = naive.label_readout(*table, 1e-6, plus_one, *labels)
    for a, b in zip(found, wanted, strict=True):
        assert a.dtype == torch.float32
        assert relative_error(a, b) <= 3e-6


def test_probabilities_follow_the_formula() -> None:
    table, (offsets, ids, prior, temperature) = operands([3, 5])
    logits, found = label_readout(*table, 1e-6, False, offsets, ids, prior, temperature)
    for i in range(2):
        at = slice(int(offsets[i]), int(offsets[i + 1]))
        wanted = calibrated(logits[at].tolist(), prior[at].tolist(), float(temperature[i]))
        assert torch.allclose(found[at].double(), torch.tensor(wanted), atol=1e-6)


def test_temperature_two_of_logits_two_and_zero() -> None:
    """Pitfall 13: a fitted temperature that isn't applied. T = 2, logits (2, 0) -> 0.731."""
    hidden = torch.tensor([[1.0, 1.0]])  # unit mean square: the norm leaves it alone
    head = torch.tensor([[1.0, 1.0], [0.0, 0.0]])
    _, p = label_readout(
        hidden,
        head,
        torch.tensor([0]),
        torch.ones(2),
        0.0,
        False,
        torch.tensor([0, 2]),
        torch.tensor([0, 1]),
        torch.zeros(2),
        torch.tensor([2.0]),
    )
    assert float(p[0]) == pytest.approx(0.7310586, abs=1e-6)


@pytest.mark.parametrize("block", [1, 64, 700, 8192])
def test_the_streamed_partition_equals_the_whole(
    block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cpu, "VOCABULARY_BLOCK", block)
    table, _ = operands([2, 2, 2])
    found = log_partition(*table, 1e-6, True)
    assert relative_error(found, naive.log_partition(*table, 1e-6, True)) <= 1e-6


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_the_partition_of_a_narrow_head_is_not_rounded(dtype: torch.dtype) -> None:
    """Label logits are fp32: their share of a sum of rounded logits could exceed 1."""
    table, (offsets, _ids, prior, temperature) = operands([255, 3], dtype)
    found = log_partition(*table, 1e-6, False)
    assert relative_error(found, naive.log_partition(*table, 1e-6, False)) <= 1e-6
    everything = torch.arange(VOCAB).repeat(2)
    offsets, prior = torch.tensor([0, VOCAB, 2 * VOCAB]), torch.zeros(2 * VOCAB)
    logits, _ = label_readout(*table, 1e-6, False, offsets, everything, prior, temperature)
    whole = logits.view(2, VOCAB).logsumexp(-1)
    assert (whole - found).abs().max() <= 1e-5


def test_gradients_reach_head_and_hidden() -> None:
    (hidden, head, rows, norm), labels = operands([2, 5])
    gradients = []
    for function in (label_readout, naive.label_readout):
        leaves = [x.clone().requires_grad_() for x in (hidden, head, norm)]
        _, p = function(leaves[0], leaves[1], rows, leaves[2], 1e-6, False, *labels)
        (p * torch.linspace(-1, 1, len(p))).sum().backward()
        gradients.append([leaf.grad for leaf in leaves])
    for found, wanted in zip(*gradients, strict=True):
        assert found is not None
        assert wanted is not None
        assert relative_error(found, wanted) <= 1e-5
