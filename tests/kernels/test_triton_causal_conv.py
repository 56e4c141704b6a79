"""The Triton kernel of the causal convolution, in the interpreter, against the reference."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from readoff.kernels.causal_conv import causal_conv
from readoff.kernels.causal_conv.checks import check_values
from readoff.kernels.causal_conv.reference import causal_conv as reference
from readoff.kernels.causal_conv.triton import find_parents, specimens
from readoff.kernels.dispatch import KernelInputError

from .forests import TREES, Segments, Tree, relative_error, segments
from .products import guarded, pairs_first

LENGTHS = (1, 2, 3, 15, 16, 17, 63, 64, 65, 200)
HALVES = (torch.float32, torch.float16)
CHANNELS = 24
TOLERANCE = {torch.float32: 1e-6, torch.float16: 2**-11}
"""Of the largest output. fp16: only the result is rounded."""

Operands = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


def operands(
    s: Segments, taps: int = 4, dtype: torch.dtype = torch.float32, channels: int = CHANNELS
) -> Operands:
    """Strided x between NaN, weights, and tails of which only slots 0 and 1 are written."""
    torch.manual_seed(3)
    tails = torch.full((s.slots, taps - 1, channels), torch.nan)
    tails[0] = 0.0
    tails[1] = torch.randn(taps - 1, channels)
    x = torch.randn(s.tokens, channels).to(dtype)
    return guarded(x, 8), torch.randn(channels, taps).to(dtype), tails.to(dtype)


def parents(tree: Tree) -> torch.Tensor:
    return torch.tensor([parent for _, parent in tree])


def compare(
    made: Operands, s: Segments, seg_parent: torch.Tensor | None = None
) -> tuple[float, torch.Tensor, torch.Tensor]:
    """(error of the outputs, tails of the kernel, tails of the reference)."""
    x, weight, tails = made
    wide = tails.float()
    wanted = reference(x.float(), weight.float(), wide, *s.args())
    before = causal_conv.calls["triton"]
    with causal_conv.use("triton"):
        found = causal_conv(x, weight, tails, *s.args(), seg_parent)
    assert causal_conv.calls["triton"] == before + 1
    assert found.is_contiguous()
    return relative_error(found, wanted), tails.float(), wide


@pairs_first(length=LENGTHS, levels=range(1, 6), taps=(2, 3, 4, 8), roots_from=(0, 1), dtype=HALVES)
def test_equals_the_reference(
    length: int, levels: int, taps: int, roots_from: int, dtype: torch.dtype
) -> None:
    """A leaf of every length at every level, its ancestors shorter and longer than the reach."""
    path = [(5, 1, 2, 17)[n % 4] for n in range(levels - 1)]
    tree: Tree = [*((n, level - 1) for level, n in enumerate(path)), (length, levels - 2)]
    tree += [(4, levels - 2), (length, levels - 1)]
    s = segments(tree, roots_from)
    given = parents(tree) if (length + levels) % 2 else None
    error, tails, wanted = compare(operands(s, taps, dtype), s, given)
    assert error <= TOLERANCE[dtype]
    assert torch.equal(tails[: len(tree) + 2], wanted)


@pytest.mark.parametrize("tree", TREES.values(), ids=TREES.keys())
def test_trees(tree: Tree) -> None:
    s = segments(tree, 1)
    error, tails, wanted = compare(operands(s), s, parents(tree))
    assert error <= 1e-6
    assert torch.equal(tails, wanted)


@pytest.mark.parametrize("given", [True, False], ids=["parents given", "parents found"])
@pytest.mark.parametrize(
    "tree",
    [
        [(3, -1), (0, 0), (4, 1)],
        [(0, -1), (5, 0)],
        [(0, -1), (0, 0), (1, 1), (0, 2), (1, 3), (0, 4)],
        [(1, -1), (1, 0), (1, 1), (1, 2), (1, 3), (20, 4)],
    ],
)
def test_short_and_empty_segments_pass_the_tail_on(tree: Tree, given: bool) -> None:
    s = segments(tree, 1)
    error, tails, wanted = compare(operands(s), s, parents(tree) if given else None)
    assert error <= 1e-6
    assert torch.equal(tails, wanted)


def test_more_segments_than_a_look_and_more_channels_than_a_tile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("readoff.kernels.causal_conv.triton.SCAN", 8)
    tree: Tree = [(3, -1), *((n, 0) for n in range(1, 20))]
    s = segments(tree)
    error, tails, wanted = compare(operands(s, channels=300), s, parents(tree))
    assert error <= 1e-6
    assert torch.equal(tails[:1], wanted[:1])
    assert torch.equal(tails[2:], wanted[2:])


def test_only_the_tails_asked_for_are_written() -> None:
    tree = TREES["deep"]
    s = segments(tree, 1)
    leaf = len(tree) - 1
    s.state_out[leaf] = -1
    made = operands(s)
    error, tails, wanted = compare(made, s)
    assert error <= 1e-6
    assert tails[leaf + 2].isnan().all()
    assert torch.equal(tails[: leaf + 2], wanted[: leaf + 2])


@pytest.mark.parametrize("implementation", ["triton", "cpu", "reference"])
def test_sentinels_and_rows_of_no_segment_change_nothing(implementation: str) -> None:
    tree: Tree = [(5, -1), (2, 0), (30, 1)]
    s = segments(tree, 1)
    x, weight, tails = operands(s)
    other = tails.clone()
    wanted = reference(x, weight, other, *s.args())
    padded = torch.full((50, CHANNELS), torch.nan)
    padded[2:7], padded[10:42] = x[:5], x[5:]

    def spread(values: torch.Tensor, filler: int) -> torch.Tensor:
        first, second, third = values.tolist()
        return torch.tensor([filler, first, filler, second, third, filler])

    sparse = (
        spread(torch.tensor([2, 10, 12]), 0),
        spread(s.length, 0),
        spread(s.depth, 0),
        spread(s.parent_state, 0),
        spread(s.state_out, -1),
        torch.tensor([-1, -1, -1, 1, 3, -1]),
    )
    check_values(padded, weight, tails, *sparse)
    with causal_conv.use(implementation):
        found = causal_conv(padded, weight, tails, *sparse)
    assert found.shape == padded.shape
    assert relative_error(torch.cat([found[2:7], found[10:42]]), wanted) <= 1e-6
    assert torch.equal(tails[:-1], other[:-1])


@pytest.mark.parametrize("segment_count", [0, 2])
def test_nothing_to_do(segment_count: int) -> None:
    s = segments([(4, -1)])
    x, weight, tails = operands(s)
    zero = torch.zeros(segment_count, dtype=torch.long)
    before = tails.clone()
    with causal_conv.use("triton"):
        found = causal_conv(x, weight, tails, zero, zero, zero, zero, zero - 1)
    assert found.isnan().all()
    assert torch.equal(tails.nan_to_num(), before.nan_to_num())


@pytest.mark.parametrize("length", [1, 2, 3, 4, 5])
def test_a_loud_neighbour_is_not_heard(length: int) -> None:
    """Pitfall 4."""
    tree: Tree = [(6, -1), (length, 0), (9, 0)]
    s = segments(tree)
    x, weight, tails = operands(s)
    loud = x.clone()
    loud[6 : 6 + length] = 1e4
    with causal_conv.use("triton"):
        quiet = causal_conv(x, weight, tails.clone(), *s.args())
        heard = causal_conv(loud, weight, tails.clone(), *s.args())
    assert torch.equal(heard[6 + length :], quiet[6 + length :])


@pytest.mark.parametrize("cut", [0, 1, 2, 3, 4, 16, 17])
def test_a_later_call_continues_an_earlier_one(cut: int) -> None:
    """Pitfall 2: the halves of a sequence, the second from the first one's tail."""
    whole = segments([(20, -1)])
    x, weight, tails = operands(whole)
    tails = torch.cat([tails, torch.full_like(tails[:1], torch.nan)])
    zero = torch.tensor([0])
    first = (zero, torch.tensor([cut]), zero, zero, torch.tensor([2]))
    second = (zero, torch.tensor([20 - cut]), zero, torch.tensor([2]), torch.tensor([3]))
    with causal_conv.use("triton"):
        halves = [causal_conv(x[:cut], weight, tails, *first)]
        halves.append(causal_conv(x[cut:], weight, tails, *second))
    wanted = reference(x, weight, tails.clone(), *whole.args())
    assert relative_error(torch.cat(halves), wanted) <= 1e-6
    assert torch.equal(tails[3], x[-3:])


def test_parents_are_found_from_the_slots() -> None:
    for tree in TREES.values():
        s = segments(tree, 1)
        found = find_parents(s.depth, s.parent_state, s.state_out)
        assert torch.equal(found, parents(tree))
    one, two = torch.zeros(2, dtype=torch.long), torch.tensor([0, 1])
    assert find_parents(two, one, one - 1).tolist() == [-1, -1]  # zero slot, nothing written
    assert find_parents(one, one + 5, one + 5).tolist() == [-1, -1]  # never itself: no endless walk


Change = Callable[[list[torch.Tensor]], None]


def wrong(position: int, value: Callable[[torch.Tensor], torch.Tensor]) -> Change:
    def change(args: list[torch.Tensor]) -> None:
        args[position] = value(args[position])

    return change


def put(position: int, index: int, value: int) -> Change:
    def change(args: list[torch.Tensor]) -> None:
        args[position][index] = value

    return change


def arguments() -> list[torch.Tensor]:
    tree: Tree = [(5, -1), (2, 0), (30, 1)]
    s = segments(tree, 1)
    return [*operands(s), *s.args(), parents(tree)]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (wrong(0, lambda x: x[:, None]), "x has shape"),
        (wrong(0, lambda x: x[:, ::2]), "x has shape"),
        (wrong(0, lambda x: x.double()), "x is torch.float64"),
        (wrong(1, lambda w: w[:-1]), "weight has shape"),
        (wrong(1, lambda w: w[:, :1]), "weight has shape"),
        (wrong(1, lambda w: w.t().contiguous().t()), "weight has strides"),
        (wrong(2, lambda t: t[:, :2]), "tails has shape"),
        (wrong(2, lambda t: t[::2]), "tails has strides"),
        (wrong(2, lambda t: t.half()), "tails is torch.float16, x torch.float32"),
        (wrong(2, lambda t: t.to("meta")), "tails is on meta"),
        (wrong(3, lambda i: i[:-1]), "seg_start has shape"),
        (wrong(4, lambda i: i[None]), "seg_length has shape"),
        (wrong(5, lambda i: i.int()), "seg_depth is torch.int32"),
        (wrong(6, lambda i: i.repeat_interleave(2)[::2]), "parent_state is torch.int64, strides"),
        (wrong(7, lambda i: i.to("meta")), "state_out is on meta"),
        (wrong(8, lambda i: i[:-1]), "seg_parent has shape"),
    ],
)
def test_refuses_wrong_tensors(change: Change, message: str) -> None:
    args = arguments()
    change(args)
    with pytest.raises(KernelInputError, match=f"causal_conv: {message}"):
        causal_conv(*args)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (put(4, 1, -1), r"segment 1 holds rows 5 \.\. 4"),
        (put(3, 2, 8), r"segment 2 holds rows 8 \.\. 38 of 37"),
        (put(3, 1, 4), "segments 0 and 1 overlap in row 4"),
        (put(6, 0, 5), r"parent_state\[0\] is 5"),
        (put(7, 2, 0), r"state_out\[2\] is 0"),
        (put(7, 2, 3), "segments 1 and 2 both write slot 3"),
        (put(8, 2, 0), r"seg_parent\[2\] is 0, but its parent_state 3 is written by segment 1"),
        (put(8, 2, -1), r"seg_parent\[2\] is -1, but its parent_state 3"),
        (put(5, 2, 1), "segment 2 has depth 1, its parent 1 has 1"),
    ],
)
def test_the_debug_switch_refuses_wrong_values(
    change: Change, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    args = arguments()
    monkeypatch.setenv("READOFF_CHECK", "1")
    causal_conv(*args)
    causal_conv(*args[:-1])
    change(args)
    with pytest.raises(KernelInputError, match=f"causal_conv: .*{message}"):
        causal_conv(*args)


def test_triton_refuses_too_many_taps() -> None:
    s = segments([(4, -1)])
    with causal_conv.use("triton"), pytest.raises(KernelInputError, match="weight has 9 taps"):
        causal_conv(*operands(s, 9), *s.args())


def test_specimens_have_names_of_their_own() -> None:
    names = [s.name for s in specimens()]
    assert len(set(names)) == len(names)
    assert {"causal_conv.convolve[bf16, C=6144]", "causal_conv.convolve[bf16, C=8192]"} <= {*names}
