"""The Triton kernels of the delta rule, in the interpreter, against the recurrence."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import pytest
import torch

from readoff.kernels.dispatch import KernelInputError
from readoff.kernels.gated_delta import gated_delta
from readoff.kernels.gated_delta.triton import specimens

from .forests import TREES, Tree, relative_error, segments
from .interpreter import correct_bf16
from .products import guarded
from .test_gated_delta import Inputs, oracle

LENGTHS = (1, 2, 3, 15, 16, 17, 63, 64, 65, 200)
DTYPES = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}
DIM = 16
TOLERANCE = {"fp32": 5e-6, "fp16": 5e-4, "bf16": 1.2e-2}
"""Of the largest output, as for the CPU. fp16: the result is rounded once, to 2^-11; its products
run in fp32 here, in TF32 on a GPU."""


@pytest.fixture
def bf16(monkeypatch: pytest.MonkeyPatch) -> torch.dtype:
    """bf16 as a GPU has it."""
    correct_bf16(monkeypatch)
    return torch.bfloat16


@pytest.fixture(autouse=True)
def _triton() -> Iterator[None]:
    """Every test here runs the Triton kernels, or fails."""
    with gated_delta.use("triton"):
        yield


def make(
    tokens: int,
    heads: tuple[int, int],
    dtype: torch.dtype,
    repeated: bool = False,
    value_dim: int = DIM,
) -> Inputs:
    """q, k, v, a, b, a_log, dt_bias as slices of two fused products, NaN all around."""
    torch.manual_seed(5)
    keys, values = heads[0] * DIM, heads[1] * value_dim
    mixed = torch.randn(1 if repeated else tokens, 2 * keys + values).expand(tokens, -1)
    gates = torch.randn(tokens, 2 * heads[1])
    if repeated:
        gates[:, : heads[1]], gates[:, heads[1] :] = -6.0, 2.944  # β = 0.95, slow decay
    mixed, gates = guarded(mixed.to(dtype), 3), guarded(gates.to(dtype), 3)
    q, k, v = mixed.split([keys, keys, values], dim=1)
    a, b = gates.split(heads[1], dim=1)
    a_log, dt_bias = guarded(torch.randn(heads[1])), guarded(torch.randn(heads[1]))
    q, k, v = (x.unflatten(1, (h, -1)) for x, h in ((q, heads[0]), (k, heads[0]), (v, heads[1])))
    return q, k, v, a, b, a_log, dt_bias


def pool(slots: int, heads: int, value_dim: int = DIM) -> torch.Tensor:
    torch.manual_seed(4)
    states = guarded(torch.full((slots, heads, DIM, value_dim), torch.nan))
    states[0] = 0.0
    states[1] = torch.randn(heads, DIM, value_dim)
    return states


def turns(tree: Tree) -> tuple[torch.Tensor, int]:
    """seg_wave and waves: one more than the parent's, the same directly behind it."""
    wave: list[int] = []
    for s, (_, parent) in enumerate(tree):
        wave.append(0 if parent < 0 else wave[parent] + (parent != s - 1))
    return torch.tensor(wave), max(wave) + 1


def run(x: Inputs, states: torch.Tensor, *rest: Any) -> torch.Tensor:
    before = gated_delta.calls["triton"]
    with torch.no_grad():
        found = gated_delta(*x, states, *rest)
    assert gated_delta.calls["triton"] == before + 1
    assert found.dtype == x[0].dtype
    return found


def compare(tree: Tree, x: Inputs, tolerance: float, waves: bool) -> None:
    """Outputs and states of a tree whose roots go on from slot 1."""
    s = segments(tree, roots_from=1)
    heads, value_dim = x[2].shape[1:]
    states, other = (pool(s.slots, heads, value_dim) for _ in range(2))
    wanted = oracle(x, other, *s.args())
    found = run(x, states, *s.args(), *(turns(tree) if waves else ()))
    assert relative_error(found, wanted) <= tolerance
    for slot in range(s.slots):
        assert relative_error(states[slot], other[slot]) <= tolerance


def _cases() -> list[Any]:
    """The product, slow but for one case of each chain: among these is every length at every
    level, and every pair of values of the other parameters."""
    cases = []
    for first, *bits in product(range(len(LENGTHS)), *[(0, 1)] * 4):
        quick = bits == [first & 1, first >> 1 & 1, first >> 2 & 1, first.bit_count() & 1]
        values = (first, ((1, 1), (1, 2))[bits[0]], ("fp32", "fp16")[bits[1]], *map(bool, bits[2:]))
        cases.append(pytest.param(*values, marks=() if quick else (pytest.mark.slow,)))
    return cases


@pytest.mark.parametrize(("first", "heads", "dtype", "repeated", "waves"), _cases())
def test_equals_the_recurrence(
    first: int, heads: tuple[int, int], dtype: str, repeated: bool, waves: bool
) -> None:
    """Chains of five levels that start anywhere in LENGTHS: every length is at every level. The
    third link has a second child, which no neighbour can walk on to."""
    path = [LENGTHS[(first + 3 * level) % len(LENGTHS)] for level in range(5)]
    tree: Tree = [*((n, level - 1) for level, n in enumerate(path)), (4, 2)]
    x = make(sum(n for n, _ in tree), heads, DTYPES[dtype], repeated)
    compare(tree, x, TOLERANCE[dtype], waves)


@pytest.mark.parametrize("heads", [(2, 2), (2, 4), (1, 3)])
def test_several_heads(heads: tuple[int, int]) -> None:
    compare([(17, -1), (5, 0)], make(22, heads, torch.float32, value_dim=32), 5e-6, True)


@pytest.mark.parametrize("tree", TREES)
@pytest.mark.slow
def test_equals_the_recurrence_on_a_forest(tree: str) -> None:
    x = make(sum(n for n, _ in TREES[tree]), (1, 1), torch.float32)
    compare(TREES[tree], x, TOLERANCE["fp32"], True)


@pytest.mark.parametrize("repeated", [False, True], ids=["random", "one token"])
def test_bf16_stays_near_the_recurrence(repeated: bool, bf16: torch.dtype) -> None:
    """The inverse multiplied in two parts: in one, equal keys are 8 % off."""
    x = make(69, (1, 1), bf16, repeated, 32)
    compare([(65, -1), (4, 0)], x, TOLERANCE["bf16"], True)


def test_64_equal_keys_in_fp32() -> None:
    compare([(64, -1)], make(64, (1, 1), torch.float32, repeated=True), 2e-6, False)


@pytest.mark.parametrize("length", [1, 63, 64, 65, 200])
def test_a_suffix_goes_on_from_a_state(length: int) -> None:
    """A suffix that continues from a slot equals the same tokens in one pass."""
    x = make(70 + length, (1, 2), torch.float32)
    whole = oracle(x, pool(3, 2), *segments([(70 + length, -1)]).args())
    states = pool(4, 2)
    cut = segments([(70, -1), (length, 0)])
    first = [t[:1] for t in cut.args()]
    run(tuple(t[:70] if len(t) == 70 + length else t for t in x), states, *first)
    second = [t[1:] for t in cut.args()]
    second[0] = second[2] = torch.tensor([0])  # row 0, and no parent in this call
    rest = run(tuple(t[70:] if len(t) == 70 + length else t for t in x), states, *second)
    assert relative_error(rest, whole[70:]) <= TOLERANCE["fp32"]


def test_chains_take_one_wave(monkeypatch: pytest.MonkeyPatch) -> None:
    """Five links in a row: one launch of the second pass, and slots written on the way."""
    from readoff.kernels.gated_delta import triton

    launches = []
    plain = triton.advance
    monkeypatch.setattr(triton, "advance", _Counted(plain, launches))
    tree: Tree = [(3, -1), (64, 0), (1, 1), (65, 2), (2, 3), (4, 1)]
    compare(tree, make(139, (1, 1), torch.float32), TOLERANCE["fp32"], True)
    assert len(launches) == 2  # the chain, and the sibling in the middle of it
    compare(tree, make(139, (1, 1), torch.float32), TOLERANCE["fp32"], False)
    assert len(launches) == 2 + 5


class _Counted:
    """A kernel that keeps a list of its launches."""

    def __init__(self, kernel: Any, launches: list[Any]) -> None:
        self._kernel, self._launches = kernel, launches

    def __getitem__(self, grid: Any) -> Any:
        self._launches.append(grid)
        return self._kernel[grid]


@pytest.mark.parametrize("waves", [False, True], ids=["depths", "waves"])
@pytest.mark.parametrize("tree", [[(3, -1), (0, 0), (0, 1), (4, 2)], [(0, -1), (5, 0)], [(0, -1)]])
def test_empty_segments_pass_the_state_on(tree: Tree, waves: bool) -> None:
    s = segments(tree, roots_from=1)
    x = make(s.tokens, (1, 1), torch.float32)
    states, other = pool(s.slots, 1), pool(s.slots, 1)
    wanted = oracle(x, other, *s.args())
    found = run(x, states, *s.args(), *(turns(tree) if waves else ()))
    assert found.shape == wanted.shape
    assert torch.allclose(found, wanted.float(), atol=1e-5)
    assert torch.allclose(states, other, atol=1e-5)


def test_sentinels_and_rows_of_no_segment_change_nothing() -> None:
    """As a captured pass pads: NaN rows behind the segments, empty segments that write nothing."""
    tree: Tree = [(66, -1), (3, 0), (9, 0)]
    s = segments(tree)
    x = make(s.tokens, (1, 1), torch.float32)
    states, other = pool(s.slots, 1), pool(s.slots, 1)
    wanted = oracle(x, other, *s.args())
    nan = [torch.full((10, *t.shape[1:]), torch.nan) for t in x[:5]]
    padded = tuple(torch.cat(pair) for pair in zip(x, nan, strict=False)) + x[5:]
    extra = [(s.tokens, 0, 0, 0, -1)] * 4
    padding = torch.tensor(extra).T
    args = [torch.cat([t, p]) for t, p in zip(s.args(), padding, strict=True)]
    wave, waves = turns(tree)
    found = run(padded, states, *args, torch.cat([wave, torch.zeros(4).long()]), waves)
    assert relative_error(found[: s.tokens], wanted) <= TOLERANCE["fp32"]
    for slot in range(s.slots):
        assert relative_error(states[slot], other[slot]) <= TOLERANCE["fp32"]


def test_segments_lie_anywhere_in_the_rows() -> None:
    """Not in the order of the rows, with gaps of NaN between them."""
    s = segments([(65, -1), (3, 0), (9, 0)])
    x = list(make(120, (1, 1), torch.float32))
    starts = torch.tensor([40, 0, 107])
    real = torch.zeros(120, dtype=torch.bool)
    for start, length in zip(starts.tolist(), s.length.tolist(), strict=True):
        real[start : start + length] = True
    for t in x[:5]:
        t[~real] = torch.nan
    rest = (starts, *s.args()[1:])
    wanted = oracle(tuple(x), pool(s.slots, 1), *rest)
    found = run(tuple(x), pool(s.slots, 1), *rest)
    assert relative_error(found[real], wanted[real]) <= TOLERANCE["fp32"]


def test_a_leaf_writes_no_state() -> None:
    s = segments([(70, -1), (5, 0)])
    s.state_out[1] = -1
    states = pool(s.slots, 1)
    run(make(75, (1, 1), torch.float32), states, *s.args())
    assert states[2].isfinite().all()
    assert states[3].isnan().all()
    assert not states[0].any()


def test_a_slot_is_replaced_by_what_goes_on_from_it() -> None:
    """A cached state prolonged in place: every program reads its columns before it writes them."""
    s = segments([(70, -1)], roots_from=1)
    states, other = pool(2, 1), pool(2, 1)
    x = make(70, (1, 1), torch.float32)
    s.state_out[0] = 1
    wanted = oracle(x, other, *s.args())
    assert relative_error(run(x, states, *s.args()), wanted) <= TOLERANCE["fp32"]
    assert relative_error(states, other) <= TOLERANCE["fp32"]


def test_more_segments_than_are_counted_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from readoff.kernels.gated_delta import triton

    monkeypatch.setattr(triton, "_BLOCK_S", 4)
    tree: Tree = [(2, -1), (0, 0), *((n, 0) for n in (1, 65, 2, 1, 0, 3, 1))]
    compare(tree, make(75, (1, 1), torch.float32), TOLERANCE["fp32"], True)


def test_fp16_does_not_overflow() -> None:
    s = segments([(70, -1), (3, 0)])
    x = make(s.tokens, (1, 1), torch.float16)
    x[0].mul_(300)
    x[1].mul_(300)
    x[2].mul_(10_000)  # a state of about 1e5
    wanted = oracle(x, pool(s.slots, 1), *s.args())
    real = wanted.isfinite()  # what the result's own dtype can hold
    found = run(x, pool(s.slots, 1), *s.args())
    assert relative_error(found[real], wanted[real]) <= 1e-3


def test_extreme_decay_gives_no_nan() -> None:
    x = list(make(130, (1, 1), torch.float32))
    x[5] = torch.full_like(x[5], 8.0)
    compare([(130, -1)], tuple(x), TOLERANCE["fp32"], False)


def test_no_segments_and_no_rows() -> None:
    none = torch.zeros(0, dtype=torch.long)
    x = make(0, (1, 1), torch.float32)
    assert run(x, pool(2, 1), *[none] * 5).shape == (0, 1, DIM)


def test_every_kernel_has_a_specimen_of_every_dtype() -> None:
    made = specimens()
    assert len({s.name for s in made}) == len(made) == 3 * 2 * 4
    for s in made:
        assert set(s.signature) | set(s.constants) == set(s.kernel.arg_names)
        assert not set(s.signature) & set(s.constants)


def test_other_head_sizes_are_refused() -> None:
    x = make(8, (1, 1), torch.float32, value_dim=24)
    with pytest.raises(KernelInputError, match="value heads have 24 elements"):
        gated_delta(*x, pool(4, 1, 24), *segments([(5, -1), (3, 0)]).args())
