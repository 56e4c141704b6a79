"""The chunked gated delta rule against the token-by-token recurrence."""

from __future__ import annotations

import pytest
import torch

from readoff.kernels.gated_delta import cpu, gated_delta
from readoff.kernels.gated_delta.reference import gated_delta as reference

from .forests import TREES, Tree, relative_error, segments

Inputs = tuple[torch.Tensor, ...]

KEY_HEADS, KEY, VALUE = 2, 16, 24


def inputs(
    tokens: int, value_heads: int = 4, repeated: bool = False, dtype: torch.dtype = torch.float32
) -> Inputs:
    """q, k, v, a, b, a_log, dt_bias. `repeated`: one token again and again, β ≈ 0.95, slow decay:
    the run of equal keys on which powers of the system's matrix explode (pitfall 6b)."""
    torch.manual_seed(3)
    width = 2 * KEY_HEADS * KEY + value_heads * VALUE
    mixed = torch.randn(1 if repeated else tokens, width).expand(tokens, width).to(dtype)
    q, k, v = mixed.split([KEY_HEADS * KEY, KEY_HEADS * KEY, value_heads * VALUE], dim=1)
    a, b = torch.randn(tokens, value_heads), torch.randn(tokens, value_heads)
    a_log, dt_bias = torch.randn(value_heads), torch.randn(value_heads)
    if repeated:
        a, b = torch.full_like(a, -6.0), torch.full_like(b, 2.944)  # sigmoid(2.944) = 0.95
    return (
        q.view(tokens, KEY_HEADS, KEY),
        k.view(tokens, KEY_HEADS, KEY),
        v.view(tokens, value_heads, VALUE),
        a.to(dtype),
        b.to(dtype),
        a_log,
        dt_bias,
    )


def oracle(x: Inputs, states: torch.Tensor, *segment_args: torch.Tensor) -> torch.Tensor:
    """The recurrence in fp64, which loses less than what it judges. Fills `states` in fp32."""
    wide = states.double()
    out = reference(*(t.double() for t in x), wide, *segment_args)
    states.copy_(wide)
    return out


def pool(slots: int, value_heads: int = 4) -> torch.Tensor:
    torch.manual_seed(4)
    states = torch.full((slots, value_heads, KEY, VALUE), torch.nan)
    states[0] = 0.0
    states[1] = torch.randn(value_heads, KEY, VALUE)
    return states


@pytest.mark.parametrize("tree", TREES.values(), ids=TREES.keys())
@pytest.mark.parametrize("roots_from", [0, 1], ids=["from zero", "from a state"])
@pytest.mark.parametrize("repeated", [False, True], ids=["random", "one token"])
@pytest.mark.parametrize("value_heads", [2, 4])
def test_equals_the_recurrence(
    tree: Tree, roots_from: int, repeated: bool, value_heads: int
) -> None:
    s = segments(tree, roots_from)
    x = inputs(s.tokens, value_heads, repeated)
    states, other = pool(s.slots, value_heads), pool(s.slots, value_heads)
    wanted = oracle(x, other, *s.args())
    before = gated_delta.calls["cpu"]
    found = gated_delta(*x, states, *s.args())
    assert gated_delta.calls["cpu"] == before + 1
    assert relative_error(found, wanted) <= 5e-6
    for slot in range(s.slots):
        assert relative_error(states[slot], other[slot]) <= 5e-6


@pytest.mark.parametrize("length", [1, 2, 3, 4, 5, 63, 64, 65, 127, 128, 200])
def test_any_length_goes_on_from_a_state(length: int) -> None:
    """A suffix that continues from a state equals the same tokens in one pass (pitfall 2)."""
    x = inputs(100 + length)
    whole = oracle(x, pool(3), *segments([(100 + length, -1)]).args())
    cut = segments([(100, -1), (length, 0)])
    found = gated_delta(*x, pool(cut.slots), *cut.args())
    assert relative_error(found, whole) <= 5e-6


def test_64_equal_keys() -> None:
    tree: Tree = [(64, -1)]
    x = inputs(64, repeated=True)
    s = segments(tree)
    wanted = oracle(tuple(x), pool(s.slots), *s.args())
    assert relative_error(gated_delta(*x, pool(s.slots), *s.args()), wanted) <= 2e-6


@pytest.mark.parametrize("repeated", [False, True], ids=["random", "one token"])
def test_bf16_stays_near_fp32(repeated: bool) -> None:
    tree = TREES["state and questions"]
    s = segments(tree)
    x = inputs(s.tokens, repeated=repeated, dtype=torch.bfloat16)
    wanted = oracle(x, pool(s.slots), *s.args())
    found = gated_delta(*x, pool(s.slots), *s.args())
    assert found.dtype == torch.bfloat16
    assert relative_error(found, wanted) <= 1.2e-2


def test_a_leaf_writes_no_state() -> None:
    tree: Tree = [(70, -1), (5, 0)]
    s = segments(tree)
    s.state_out[1] = -1
    states = pool(s.slots)
    gated_delta(*inputs(75), states, *s.args())
    assert states[2].isfinite().all()
    assert states[3].isnan().all()


@pytest.mark.parametrize("tree", [[(3, -1), (0, 0), (0, 1), (4, 2)], [(0, -1), (5, 0)], [(0, -1)]])
def test_empty_segments_pass_the_state_on(tree: Tree) -> None:
    """Sentinels of a captured pass: they write their parent's state and no output."""
    s = segments(tree, roots_from=1)
    x = inputs(s.tokens)
    states, other = pool(s.slots), pool(s.slots)
    wanted = oracle(x, other, *s.args())
    found = gated_delta(*x, states, *s.args())
    assert found.shape == wanted.shape
    assert torch.allclose(found, wanted.float(), atol=1e-5)
    assert torch.allclose(states, other, atol=1e-5)


def test_siblings_of_different_parents_in_one_step() -> None:
    tree: Tree = [(5, -1), (6, -1), (4, 0), (4, 1), (4, 0)]
    s = segments(tree)
    x = inputs(s.tokens)
    wanted = oracle(x, pool(s.slots), *s.args())
    assert relative_error(gated_delta(*x, pool(s.slots), *s.args()), wanted) <= 5e-6


def test_fp16_does_not_overflow_in_the_products() -> None:
    """Raw keys and queries of a few hundred: their dot products leave the range of fp16."""
    s = segments([(70, -1), (3, 0)])
    x = list(inputs(s.tokens))
    x[0], x[1] = x[0] * 300, x[1] * 300
    half = [t.half() for t in x]
    wanted = oracle(tuple(half), pool(s.slots), *s.args())
    assert relative_error(gated_delta(*half, pool(s.slots), *s.args()), wanted) <= 5e-3


def test_the_result_does_not_depend_on_the_window(monkeypatch: pytest.MonkeyPatch) -> None:
    tree = TREES["strangers"]
    s = segments(tree)
    x = inputs(s.tokens)
    whole = gated_delta(*x, pool(s.slots), *s.args())
    monkeypatch.setattr(cpu, "WINDOW", 1)
    assert relative_error(gated_delta(*x, pool(s.slots), *s.args()), whole) <= 2e-6


def test_extreme_decay_gives_no_nan() -> None:
    s = segments([(130, -1)])
    x = list(inputs(130))
    x[5] = torch.full_like(x[5], 8.0)  # the state is all but wiped at each token
    wanted = oracle(tuple(x), pool(s.slots), *s.args())
    assert relative_error(gated_delta(*x, pool(s.slots), *s.args()), wanted) <= 5e-6


def test_gradients_equal_those_of_the_recurrence() -> None:
    s = segments([(70, -1), (3, 0), (20, 0)])
    gradients = []
    for function in (gated_delta, reference):
        leaves = [x.clone().requires_grad_() for x in inputs(s.tokens)]
        out = function(*leaves, pool(s.slots).nan_to_num(), *s.args())
        (out * torch.linspace(-1, 1, out.numel()).view_as(out)).sum().backward()
        gradients.append([leaf.grad for leaf in leaves])
    for found, wanted in zip(*gradients, strict=True):
        assert found is not None
        assert wanted is not None
        assert relative_error(found, wanted) <= 1e-4
