"""The Triton kernel of the tree attention, in the interpreter, against the dense fp32 reference."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from readoff.kernels.dispatch import KernelInputError
from readoff.kernels.tree_attention import tree_attention
from readoff.kernels.tree_attention.checks import check_values
from readoff.kernels.tree_attention.reference import tree_attention as reference
from readoff.kernels.tree_attention.triton import Plan, specimens

from .forests import Tree, relative_error
from .products import guarded, pairs_first
from .test_tree_attention import Args, make

LENGTHS = (1, 2, 3, 15, 16, 17, 63, 64, 65, 200)
HEADS = ((8, 2), (16, 4), (14, 2))
HALVES = (torch.float32, torch.float16)
TOLERANCE = {torch.float32: 2e-6, torch.float16: 2 * 2**-11}
"""Of the largest output. fp16: the weights are rounded once for the second product, and the
result once; everything else is fp32."""


def chain(length: int, levels: int, ancestors: tuple[int, ...]) -> Tree:
    """A leaf of `length` with a sibling, below `levels` - 1 ancestors."""
    path = [ancestors[n % len(ancestors)] for n in range(levels - 1)]
    tree: Tree = [(n, level - 1) for level, n in enumerate(path)]
    return [*tree, (length, levels - 2), (4, levels - 2)]


def run(args: Args, scale: float = 0.25) -> torch.Tensor:
    before = tree_attention.calls["triton"]
    with tree_attention.use("triton"):
        found = tree_attention(*args, scale)
    assert tree_attention.calls["triton"] == before + 1
    return found


def wide(args: Args) -> Args:
    return tuple(a.float() if a.is_floating_point() else a for a in args)


@pytest.fixture
def big_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tiles that the interpreter is quick with, whatever the dtype."""
    monkeypatch.setattr(Plan, "choose", lambda *sizes: Plan(128, 64, 4, 1))


@pytest.mark.usefixtures("big_tiles")
@pairs_first(length=LENGTHS, levels=range(1, 6), heads=HEADS, dtype=HALVES, strided=(False, True))
def test_equals_the_reference(
    length: int, levels: int, heads: tuple[int, int], dtype: torch.dtype, strided: bool
) -> None:
    args = make(chain(length, levels, (5, 1, 17, 2)), *heads, 16, dtype)
    found = run((guarded(args[0], 8), *args[1:]) if strided else args)
    assert found.is_contiguous()
    assert relative_error(found, reference(*wide(args), 0.25)) <= TOLERANCE[dtype]


@pytest.mark.slow
@pytest.mark.usefixtures("big_tiles")
@pytest.mark.parametrize("dtype", HALVES, ids=["fp32", "fp16"])
@pytest.mark.parametrize("levels", range(2, 6))
@pytest.mark.parametrize("length", LENGTHS)
def test_equals_the_reference_below_long_ancestors(
    length: int, levels: int, dtype: torch.dtype
) -> None:
    at = LENGTHS.index(length)
    args = make(chain(length, levels, LENGTHS[at:] + LENGTHS[:at]), 8, 2, 16, dtype)
    assert relative_error(run(args), reference(*wide(args), 0.25)) <= TOLERANCE[dtype]


@pytest.mark.parametrize(("heads", "kv_heads", "dim"), [(2, 1, 64), (4, 2, 128), (4, 1, 256)])
@pytest.mark.parametrize("dtype", HALVES, ids=["fp32", "fp16"])
def test_head_sizes_in_the_tiles_they_are_launched_with(
    heads: int, kv_heads: int, dim: int, dtype: torch.dtype
) -> None:
    args = make([(37, -1), (3, 0), (70, 1)], heads, kv_heads, dim, dtype)
    found = run(args, dim**-0.5)
    assert relative_error(found, reference(*wide(args), dim**-0.5)) <= TOLERANCE[dtype]


@pytest.mark.parametrize("rows", [16, 64, 128])
def test_every_tile_height(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Plan, "choose", lambda *sizes: Plan(rows, 32, 4, 1))
    args = make([(33, -1), *((n, 0) for n in (1, 17, 2, 40))], 7, 1)
    assert relative_error(run(args), reference(*args, 0.25)) <= 2e-6


@pytest.mark.usefixtures("big_tiles")
def test_all_lengths_in_one_launch(monkeypatch: pytest.MonkeyPatch) -> None:
    """More runs than a program looks at at a time, in no order of length."""
    monkeypatch.setattr("readoff.kernels.tree_attention.triton.SCAN", 8)
    args = make([(9, -1), *((n, 0) for n in (*LENGTHS, 4, 1, 1, 5, 2, 3, 1))], 4, 2)
    assert relative_error(run(args), reference(*args, 0.25)) <= 2e-6


def test_rows_in_another_order_than_the_runs() -> None:
    q, k, v, start, *rest = make([(20, -1), (3, 0), (17, 1)])
    swapped = torch.tensor([20, 17, 0])
    mixed = torch.cat([q[start[2] :], q[20:23], q[:20]])
    wanted = reference(q, k, v, start, *rest, 0.25)
    found = run((mixed, k, v, swapped, *rest))
    assert relative_error(torch.cat([found[20:], found[17:20], found[:17]]), wanted) <= 2e-6


@pytest.mark.parametrize("implementation", ["triton", "cpu", "reference"])
def test_empty_runs_and_rows_of_no_run_change_nothing(implementation: str) -> None:
    args = make([(20, -1), (3, 0), (17, 1)])
    wanted = reference(*args, 0.25)
    with tree_attention.use(implementation):
        found = tree_attention(*with_sentinels(args), 0.25)
    assert relative_error(found[2:22], wanted[:20]) <= 3e-6
    assert relative_error(found[26:46], wanted[20:]) <= 3e-6


def with_sentinels(args: Args) -> Args:
    """Empty runs before, between and after the others, and NaN rows that belong to none."""
    q, k, v, start, length, slot, own, offsets, spans = args
    padded = torch.full((50, *q.shape[1:]), torch.nan, dtype=q.dtype)
    padded[2:22], padded[26:46] = q[:20], q[20:]

    def spread(values: torch.Tensor) -> torch.Tensor:
        first, second, third = values.tolist()
        return torch.tensor([0, first, 0, second, third, 0, 0])

    start = torch.tensor([2, 26, 29])
    ends = offsets[1:].tolist()
    chains = torch.tensor([0, 0, ends[0], ends[0], ends[1], ends[2], ends[2], ends[2]])
    unused = torch.cat([spans, torch.zeros(3, 2, dtype=torch.long)])
    return (padded, k, v, spread(start), spread(length), spread(slot), spread(own), chains, unused)


def test_nothing_but_sentinels() -> None:
    args = make([(20, -1), (3, 0), (17, 1)])
    none = torch.zeros(3, dtype=torch.long)
    found = run((*args[:3], none, none, none, none, torch.zeros(4, dtype=torch.long), args[8]))
    assert found.isnan().all()


@pytest.mark.parametrize("rows", [0, 4])
def test_no_runs(rows: int) -> None:
    q, k, v, *_, spans = make([(4, -1)])
    none = torch.zeros(0, dtype=torch.long)
    offsets = torch.zeros(1, dtype=torch.long)
    assert run((q[:rows], k, v, none, none, none, none, offsets, spans)).shape == (rows, 4, 16)


@pytest.mark.parametrize("dtype", HALVES, ids=["fp32", "fp16"])
def test_reads_of_one_query_see_what_comes_before_them(dtype: torch.dtype) -> None:
    """The last layer: runs of one query, whose own keys begin before it."""
    tree: Tree = [(70, -1), (3, 0), (65, 1)]
    q, k, v, start, length, slot, _, offsets, spans = make(tree, 14, 2, 16, dtype)
    full = reference(*wide((q, k, v)), start, length, slot, length, offsets, spans, 0.25)
    reads = [(s, o) for s, (n, _) in enumerate(tree) for o in sorted({0, n // 2, n - 1})]
    segment = torch.tensor([s for s, _ in reads])
    offset = torch.tensor([o for _, o in reads])
    rows = start[segment] + offset
    counts = offsets.diff()[segment]
    found = run(
        (
            q[rows],
            k,
            v,
            torch.arange(len(reads)),
            torch.ones(len(reads), dtype=torch.long),
            slot[segment],
            offset + 1,
            torch.cat([torch.zeros(1, dtype=torch.long), counts.cumsum(0)]),
            torch.cat([spans[offsets[s] : offsets[s + 1]] for s, _ in reads]),
        )
    )
    assert relative_error(found, full[rows]) <= TOLERANCE[dtype]


def test_strangers_change_no_bit() -> None:
    """Pitfall 19: the keys of a run are summed in an order that is its own."""
    alone = make([(20, -1), (21, 0)], 4, 2)
    q, k, v, start, length, slot, own, offsets, spans = alone
    other = make([(30, -1), (5, 0), (24, 0)], 4, 2)
    slots = len(k)
    both = (
        torch.cat([other[0], q]),
        torch.cat([k, other[1]]),
        torch.cat([v, other[2]]),
        torch.cat([other[3], start + len(other[0])]),
        torch.cat([other[4], length]),
        torch.cat([other[5] + slots, slot]),
        torch.cat([other[6], own]),
        torch.cat([other[7], offsets[1:] + other[7][-1]]),
        torch.cat([other[8] + torch.tensor([slots, 0]), spans]),
    )
    assert torch.equal(run(both)[len(other[0]) :], run(alone))


def test_equal_keys_and_large_scores_stay_exact() -> None:
    """One key for all: the mean of the values, whatever the scores' size."""
    q, k, v, *rest = make([(65, -1)], 4, 2)
    q, k = (q * 32).round(), torch.full_like(k, 32.0)  # whole numbers: scores are exact
    found = run((q, k, v, *rest))
    seen = v[rest[2][0] : rest[2][0] + 65].cumsum(0) / torch.arange(1, 66)[:, None, None]
    assert relative_error(found, seen.repeat_interleave(2, dim=1)) <= 2e-6


Change = Callable[[list[torch.Tensor]], None]


def wrong(position: int, value: Callable[[torch.Tensor], torch.Tensor]) -> Change:
    def change(args: list[torch.Tensor]) -> None:
        args[position] = value(args[position])

    return change


def put(position: int, index: int | tuple[int, ...], value: int) -> Change:
    def change(args: list[torch.Tensor]) -> None:
        args[position] = args[position].clone()
        args[position][index] = value

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (wrong(0, lambda q: q[:, 0]), "q has shape"),
        (wrong(0, lambda q: q[..., ::2]), "q has strides"),
        (wrong(0, lambda q: q.double()), "q is torch.float64"),
        (wrong(0, lambda q: q[:, :3]), "q has 3 heads"),
        (wrong(0, lambda q: q[..., :8]), "heads of the pools are 16 wide, those of q 8"),
        (wrong(1, lambda k: k.half()), "k_pool is torch.float16"),
        (wrong(2, lambda v: v.to("meta")), "v_pool is on meta"),
        (wrong(2, lambda v: v[:-1]), "k_pool is .*, v_pool"),
        (wrong(3, lambda i: i[:-1]), "q_start has shape"),
        (wrong(4, lambda i: i[None]), "q_length has shape"),
        (wrong(5, lambda i: i.int()), "kv_start is torch.int32"),
        (wrong(6, lambda i: i.repeat_interleave(2)[::2]), "kv_length is torch.int64, strides"),
        (wrong(7, lambda i: i[:-1]), "chain_offsets has shape"),
        (wrong(8, lambda i: i.view(-1)), "chain_spans has shape"),
    ],
)
def test_refuses_wrong_tensors(change: Change, message: str) -> None:
    args = list(make([(20, -1), (3, 0), (17, 1)]))
    change(args)
    with pytest.raises(KernelInputError, match=f"tree_attention: {message}"):
        tree_attention(*args, 0.25)


def test_refuses_a_scale_that_is_no_number() -> None:
    with pytest.raises(KernelInputError, match="scale is nan"):
        tree_attention(*make([(2, -1)]), float("nan"))


def test_triton_refuses_heads_that_are_no_power_of_two() -> None:
    with tree_attention.use("triton"), pytest.raises(KernelInputError, match="24 wide"):
        tree_attention(*make([(2, -1)], dim=24), 0.25)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (put(4, 1, -1), "run 1 has q_length -1"),
        (put(6, 0, 19), "run 0 has q_length 20 and kv_length 19"),
        (put(3, 2, 24), r"run 2 holds rows 24 \.\. 41 of 40"),
        (put(3, 1, 19), "runs 0 and 1 overlap in row 19"),
        (put(5, 1, 999), "kv_start: run 1 holds slots 999"),
        (put(7, 1, 9), "chain_offsets must grow"),
        (put(8, (0, 1), 999), r"chain_spans\[0\] holds slots"),
    ],
)
def test_the_debug_switch_refuses_wrong_values(
    change: Change, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    args = list(make([(20, -1), (3, 0), (17, 1)]))
    monkeypatch.setenv("READOFF_CHECK", "1")
    tree_attention(*args, 0.25)
    change(args)
    with pytest.raises(KernelInputError, match=f"tree_attention: .*{message}"):
        tree_attention(*args, 0.25)


def test_sentinels_pass_the_debug_switch() -> None:
    check_values(*with_sentinels(make([(20, -1), (3, 0), (17, 1)])), 0.25)


def test_specimens_cover_what_is_launched() -> None:
    names = {s.name for s in specimens()}
    for heads, dim in (("14/2", 64), ("16/8", 128), ("8/2", 256), ("16/4", 256)):
        for rows in {Plan.choose(dim, 2, n).rows for n in range(1, 4096)}:
            assert f"tree_attention.attend[bf16, H={heads}, D={dim}, rows={rows}]" in names


@pytest.mark.parametrize("bytes_each", [2, 4])
@pytest.mark.parametrize("dim", [16, 32, 64, 128, 256])
def test_the_order_of_sums_never_depends_on_the_batch(dim: int, bytes_each: int) -> None:
    assert len({Plan.choose(dim, bytes_each, rows).keys for rows in range(1, 4096)}) == 1
