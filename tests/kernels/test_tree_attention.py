"""Tree attention against the dense fp32 reference."""

from __future__ import annotations

import pytest
import torch

from readoff.kernels.tree_attention import cpu, tree_attention
from readoff.kernels.tree_attention.reference import tree_attention as reference

from .forests import TREES, Tree, chains, relative_error, segments

Args = tuple[torch.Tensor, ...]


def make(
    tree: Tree, heads: int = 4, kv_heads: int = 2, dim: int = 16, dtype: torch.dtype = torch.float32
) -> Args:
    """Operands of a tree whose segments lie scattered in a pool full of NaN."""
    torch.manual_seed(1)
    s = segments(tree)
    order = torch.randperm(len(tree)).tolist()
    slot, at = [0] * len(tree), 3
    for i in order:
        slot[i] = at
        at += tree[i][0] + 2
    pools = []
    for _ in range(2):
        pool = torch.full((at, kv_heads, dim), torch.nan)
        for i, (length, _) in enumerate(tree):
            pool[slot[i] : slot[i] + length] = torch.randn(length, kv_heads, dim)
        pools.append(pool.to(dtype))
    q = torch.randn(s.tokens, heads, dim).to(dtype)
    offsets, spans = chains(tree, slot)
    return (q, *pools, s.start, s.length, torch.tensor(slot), s.length, offsets, spans)


@pytest.mark.parametrize("tree", TREES.values(), ids=TREES.keys())
@pytest.mark.parametrize(("heads", "kv_heads", "dim"), [(4, 2, 16), (14, 2, 64), (8, 2, 256)])
def test_equals_the_reference(tree: Tree, heads: int, kv_heads: int, dim: int) -> None:
    args = make(tree, heads, kv_heads, dim)
    before = tree_attention.calls["cpu"]
    found = tree_attention(*args, dim**-0.5)
    assert tree_attention.calls["cpu"] == before + 1
    assert relative_error(found, reference(*args, dim**-0.5)) <= 3e-6


def test_bf16_stays_near_fp32() -> None:
    args = make(TREES["state and questions"], 8, 2, 128, torch.bfloat16)
    wide = tuple(a.float() if a.is_floating_point() else a for a in args)
    assert relative_error(tree_attention(*args, 128**-0.5), reference(*wide, 128**-0.5)) <= 1e-2


@pytest.mark.parametrize("tree", ["long", "state and questions"])
def test_a_bias_that_all_keys_share_costs_no_precision(tree: str) -> None:
    """Qwen2.5's key biases: softmax doesn't see them, scores rounded to bf16 would."""
    q, k, v, *rest = make(TREES[tree], 8, 2, 64, torch.bfloat16)
    k = (k + 60.0).to(torch.bfloat16)
    wanted = reference(q.float(), k.float(), v.float(), *rest, 0.125)
    assert relative_error(tree_attention(q, k, v, *rest, 0.125), wanted) <= 1e-2


def test_rows_read_apart_equal_the_same_rows_of_a_full_pass() -> None:
    tree = TREES["deep"]
    q, k, v, start, length, slot, _, offsets, spans = make(tree)
    full = tree_attention(q, k, v, start, length, slot, length, offsets, spans, 0.25)
    reads = [(s, o) for s, (n, _) in enumerate(tree) for o in {0, n // 2, n - 1}]
    rows = torch.tensor([int(start[s]) + o for s, o in reads])
    one = torch.ones(len(reads), dtype=torch.long)
    counts = offsets.diff()[[s for s, _ in reads]]
    found = tree_attention(
        q[rows],
        k,
        v,
        torch.arange(len(reads)),
        one,
        slot[[s for s, _ in reads]],
        torch.tensor([o + 1 for _, o in reads]),
        torch.cat([torch.zeros(1, dtype=torch.long), counts.cumsum(0)]),
        torch.cat([spans[offsets[s] : offsets[s + 1]] for s, _ in reads]),
        0.25,
    )
    assert relative_error(found, full[rows]) <= 3e-6


def test_batches_respect_the_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    args = make(TREES["many short"])
    whole = tree_attention(*args, 0.25)
    monkeypatch.setattr(cpu, "MAX_GATHERED", 200)
    assert relative_error(tree_attention(*args, 0.25), whole) <= 3e-6


def test_gradients_equal_those_of_the_reference() -> None:
    q, k, v, *rest = make([(70, -1), (3, 0), (5, 0)])
    gradients = []
    for function in (tree_attention, reference):
        leaves = [x.nan_to_num().clone().requires_grad_() for x in (q, k, v)]
        out = function(*leaves, *rest, 0.25)
        (out * torch.linspace(-1, 1, out.numel()).view_as(out)).sum().backward()
        gradients.append([leaf.grad for leaf in leaves])
    for found, wanted in zip(*gradients, strict=True):
        assert found is not None
        assert wanted is not None
        assert relative_error(found, wanted) <= 1e-5
