"""The loss: what it is, that it is strictly proper, and its gradient."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from readoff.learn.loss import LAMBDA, soft_label_losses

SHARES = st.lists(st.floats(0.0, 1.0), min_size=2, max_size=6).filter(lambda t: sum(t) > 0.1)
LOGITS = st.lists(st.floats(-8.0, 8.0), min_size=6, max_size=6)


def one(logits: torch.Tensor, target: torch.Tensor, brier: float = LAMBDA) -> torch.Tensor:
    """The loss of one question."""
    return soft_label_losses(logits, target, torch.tensor([0, len(target)]), brier).total[0]


def distribution(shares: list[float]) -> torch.Tensor:
    t = torch.tensor(shares, dtype=torch.float64)
    return t / t.sum()


def test_by_hand() -> None:
    logits = torch.tensor([0.0, 0.0, 1.0, 0.0]).log_softmax(0)  # any constant is ignored
    found = soft_label_losses(
        torch.cat([torch.log(torch.tensor([0.8, 0.2])), logits]),
        torch.tensor([1.0, 0.0, 0.5, 0.0, 0.5, 0.0]),
        torch.tensor([0, 2, 6]),
    )
    assert found.nll[0].item() == pytest.approx(0.2231436)
    assert found.brier[0].item() == pytest.approx(0.08)
    assert found.total[0].item() == pytest.approx(0.2631436)
    p = logits.exp()
    nll = -0.5 * (p[0].log() + p[2].log())
    assert found.nll[1].item() == pytest.approx(nll.item())


@given(SHARES, LOGITS)
@settings(deadline=None, max_examples=200)
def test_no_distribution_is_better_than_the_target(shares: list[float], z: list[float]) -> None:
    """Strictly proper: the loss at p exceeds that at t by at least half the squared distance."""
    t = distribution(shares)
    p = torch.tensor(z[: len(t)], dtype=torch.float64).softmax(0)
    excess = one(p.log(), t) - one(t.log().clamp(min=-1e4), t)
    # KL ≥ |p - t|₁² / 2 (Pinsker) and the Brier score adds λ |p - t|₂².
    wanted = 0.5 * (p - t).abs().sum() ** 2 + LAMBDA * (p - t).square().sum()
    assert excess >= wanted - 1e-9


@given(SHARES)
@settings(deadline=None, max_examples=100)
def test_descent_ends_at_the_target(shares: list[float]) -> None:
    t = distribution([0.05 + s for s in shares])
    z = torch.zeros_like(t, requires_grad=True)
    optimizer = torch.optim.LBFGS([z], lr=1.0, max_iter=200, line_search_fn="strong_wolfe")

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = one(z, t)
        loss.backward()  # type: ignore[no-untyped-call]
        return loss

    optimizer.step(closure)
    assert (z.softmax(0) - t).abs().max() < 1e-4


@pytest.mark.parametrize("brier", [0.0, 0.5, 2.0])
def test_gradient_of_the_naive_form(brier: float) -> None:
    generator = torch.Generator().manual_seed(1)
    counts = [2, 7, 3, 255]
    offsets = torch.tensor([0, *counts]).cumsum(0)
    logits = torch.randn(sum(counts), generator=generator, dtype=torch.float64) * 4
    targets = torch.cat(
        [torch.rand(n, generator=generator, dtype=torch.float64).softmax(0) for n in counts]
    )
    weights = torch.tensor([1.0, 0.5, 0.0, 2.0], dtype=torch.float64)
    mine, theirs = logits.clone().requires_grad_(), logits.clone().requires_grad_()
    loss = (weights * soft_label_losses(mine, targets, offsets, brier).total).sum()
    loss.backward()  # type: ignore[no-untyped-call]
    naive = torch.zeros((), dtype=torch.float64)
    for w, z, t in zip(weights, theirs.split(counts), targets.split(counts), strict=True):
        p = F.softmax(z, -1)
        naive = naive + w * (-(t * p.log()).sum() + brier * ((p - t) ** 2).sum())
    naive.backward()  # type: ignore[no-untyped-call]
    assert loss.item() == pytest.approx(naive.item())
    torch.testing.assert_close(mine.grad, theirs.grad, rtol=1e-9, atol=1e-12)


def test_an_impossible_label_that_is_no_target_costs_nothing() -> None:
    z = torch.tensor([0.0, -200.0], requires_grad=True)
    loss = one(z, torch.tensor([1.0, 0.0]))
    loss.backward()  # type: ignore[no-untyped-call]
    assert loss.item() == 0.0
    assert z.grad is not None
    assert z.grad.tolist() == [0.0, 0.0]


def test_no_questions() -> None:
    found = soft_label_losses(torch.zeros(0), torch.zeros(0), torch.zeros(1, dtype=torch.long))
    assert found.total.shape == (0,)
