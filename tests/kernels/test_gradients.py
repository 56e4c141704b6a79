"""Gradients written out by hand against autograd through the references."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from readoff.kernels.dispatch import use
from readoff.kernels.pointwise import add_rms_norm, rms_norm, swiglu
from readoff.kernels.tree_attention import tree_attention

from .forests import TREES

_T = torch.Tensor
BOUNDS = {torch.float32: 1e-5, torch.bfloat16: 2e-2}


def noise(*shape: int, seed: int, dtype: torch.dtype) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator).to(dtype)


def compare(run: Callable[..., torch.Tensor], leaves: list[torch.Tensor], bound: float) -> None:
    """The gradients of a random projection of what `run` gives, by chosen operators and by the
    references in fp32."""
    grads = []
    for dtype, forced in ((leaves[0].dtype, None), (torch.float32, "reference")):
        own = [leaf.detach().to(dtype).requires_grad_() for leaf in leaves]
        if forced is None:
            out = run(*own)
        else:
            with use(forced, "tree_attention", "rms_norm", "add_rms_norm", "swiglu"):
                out = run(*own)
        weights = noise(*out.shape, seed=9, dtype=torch.float32)
        (out.float() * weights).sum().backward()  # type: ignore[no-untyped-call]
        grads.append([leaf.grad.float() for leaf in own if leaf.grad is not None])
    assert len(grads[0]) == len(grads[1]) == len(leaves)
    for found, wanted in zip(*grads, strict=True):
        assert wanted.norm() > 0
        assert (found - wanted).norm() <= bound * wanted.norm()


@pytest.mark.parametrize("dtype", BOUNDS)
@pytest.mark.parametrize("plus_one", [False, True])
def test_rms_norm(dtype: torch.dtype, plus_one: bool) -> None:
    x, residual = (noise(7, 63, seed=s, dtype=dtype) * 3 for s in (1, 2))
    weight = noise(63, seed=3, dtype=dtype)
    bound = BOUNDS[dtype]
    compare(lambda x, w: rms_norm(x, w, 1e-6, plus_one), [x, weight], bound)
    both = lambda x, r, w: torch.cat(add_rms_norm(x, r, w, 1e-6, plus_one))  # noqa: E731
    compare(both, [x, residual, weight], bound)


@pytest.mark.parametrize("dtype", BOUNDS)
def test_swiglu(dtype: torch.dtype) -> None:
    compare(lambda x: swiglu(x, 33), [noise(7, 66, seed=1, dtype=dtype) * 3], BOUNDS[dtype])


@pytest.mark.parametrize("dtype", BOUNDS)
@pytest.mark.parametrize("name", TREES)
def test_tree_attention(name: str, dtype: torch.dtype) -> None:
    """Whole segments as runs, and one query a segment, as the last layer reads."""
    tree = TREES[name]
    starts, total = [], 0
    for length, _ in tree:
        starts.append(total)
        total += length
    chains = []
    for _, parent in tree:
        chain: list[tuple[int, int]] = []
        while parent >= 0:
            chain.insert(0, (starts[parent], tree[parent][0]))
            parent = tree[parent][1]
        chains.append(chain)
    lengths = torch.tensor([n for n, _ in tree])
    start = torch.tensor(starts)
    offsets = torch.tensor([0, *map(len, chains)]).cumsum(0)
    spans = torch.tensor([span for chain in chains for span in chain], dtype=torch.long)
    k, v = (noise(total, 2, 16, seed=s, dtype=dtype) for s in (1, 2))
    for rows, q_length in ((start, lengths), (torch.arange(len(tree)), torch.ones_like(lengths))):
        q = noise(int(q_length.sum()), 6, 16, seed=3, dtype=dtype)
        index = (rows, q_length, start, lengths, offsets, spans.view(-1, 2))

        def attend(v: torch.Tensor, q: torch.Tensor = q, k: torch.Tensor = k, i=index) -> _T:  # type: ignore[no-untyped-def]
            return tree_attention(q.to(v.dtype), k.to(v.dtype), v, *i, 0.25)

        # Of a single key the probability is 1, and queries and keys have no gradient.
        compare(attend, [v] if total == 1 else [v, q, k], BOUNDS[dtype])
