"""The implementations behind the deterministic mode: no row's bits depend on what is beside it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch

from readoff.engine.runtime import deterministic_kernels, threads
from readoff.kernels.causal_conv import causal_conv
from readoff.kernels.dispatch import OPS, use_all
from readoff.kernels.gated_delta import gated_delta
from readoff.kernels.label_readout import label_readout, log_partition
from readoff.kernels.linear import linear, pack
from readoff.kernels.pointwise import (
    add_rms_norm,
    gated_rms_norm,
    norm_rope_write,
    rms_norm,
    sigmoid_gate,
    swiglu,
)
from readoff.kernels.row_tiles import tile_rows
from readoff.kernels.tree_attention import tree_attention

FIXED = deterministic_kernels(torch.device("cpu"))
ROWS = 150
pytestmark = pytest.mark.usefixtures("_no_gradients")
DTYPES = (torch.float32, torch.bfloat16)


@pytest.fixture
def _no_gradients() -> Iterator[None]:
    with torch.inference_mode():
        yield


def random(*shape: int, dtype: torch.dtype = torch.float32, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return (2 * torch.randn(*shape, generator=generator)).to(dtype)


RowWise = dict[str, Callable[[torch.Tensor], torch.Tensor]]


def row_wise(width: int, dtype: torch.dtype) -> RowWise:
    """Functions of [T, width] whose rows mustn't know one another."""
    weight = random(width, dtype=dtype, seed=1)
    square = random(width, width, dtype=dtype, seed=2)
    packed = pack(square)
    norm = (weight, 1e-6, False)
    functions: RowWise = {
        "rms_norm": lambda x: rms_norm(x, *norm),
        "add_rms_norm": lambda x: torch.cat(add_rms_norm(x, x.flip(-1), *norm), -1),
        "swiglu": lambda x: swiglu(torch.cat([x, x.flip(-1)], -1), width),
        "sigmoid_gate": lambda x: sigmoid_gate(x, x.flip(-1)),
        "gated_rms_norm": lambda x: gated_rms_norm(
            x[:, None], x.flip(-1)[:, None], weight, 1e-6
        ).flatten(1),
        "linear, packed": lambda x: linear(x, packed, None),
        "log_partition": lambda x: log_partition(x, square, torch.arange(len(x)), *norm)[:, None],
    }
    if width % 4 == 0:  # see kernels/linear/tiled.py
        functions["linear, plain"] = lambda x: linear(x, square, None)
    return functions


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("width", [6, 48, 64, 896])
def test_rows_alone_and_among_others(width: int, dtype: torch.dtype, count: int) -> None:
    x = random(ROWS, width, dtype=dtype)
    order = torch.randperm(ROWS, generator=torch.Generator().manual_seed(3))
    with threads(count), use_all(FIXED):
        for name, function in row_wise(width, dtype).items():
            whole = function(x)
            assert torch.equal(function(x[order]), whole[order]), name
            for row in (0, 1, 77, ROWS - 1):
                assert torch.equal(function(x[row : row + 1])[0], whole[row]), name
            assert torch.equal(function(x[3:100]), whole[3:100]), name


@pytest.mark.parametrize("dtype", DTYPES)
def test_heads_are_rotated_alike_everywhere(dtype: torch.dtype) -> None:
    heads, dim, half = 3, 24, 5
    q, k = random(ROWS, heads, dim, dtype=dtype), random(ROWS, 1, dim, dtype=dtype, seed=1)
    weight, angle = random(dim, dtype=dtype, seed=2), random(ROWS, half, seed=3)

    def turn(rows: slice) -> tuple[torch.Tensor, torch.Tensor]:
        n = len(range(ROWS)[rows])
        keys, values = torch.empty(n, 1, dim, dtype=dtype), torch.empty(n, 1, dim, dtype=dtype)
        cos, sin = angle[rows].cos(), angle[rows].sin()
        slots = torch.arange(n)
        norm = (weight, weight, 1e-6, True)
        made = norm_rope_write(
            q[rows], k[rows], k[rows], *norm, cos, sin, None, keys, values, slots
        )
        return made, keys

    with use_all(FIXED):
        whole, keys = turn(slice(None))
        for rows in (slice(0, 1), slice(41, 42), slice(20, 120)):
            made, own = turn(rows)
            assert torch.equal(made, whole[rows])
            assert torch.equal(own, keys[rows])


LENGTHS = (1, 3, 16, 40, 64, 65, 130)


def test_segments_of_the_delta_rule_and_the_convolution() -> None:
    heads, dim, channels = 2, 16, 24
    total, count = sum(LENGTHS), len(LENGTHS)
    inputs = [random(total, heads, dim, seed=n) for n in range(3)]
    gates = [random(total, heads, seed=n) for n in (3, 4)]
    a_log, bias = random(heads, seed=5), random(heads, seed=6)
    x, taps = random(total, channels, seed=7), random(channels, 4, seed=8)
    states, tails = random(count + 2, heads, dim, dim, seed=9), random(count + 2, 3, channels)
    states[0] = tails[0] = 0.0

    def run(chosen: list[int]) -> list[torch.Tensor]:
        starts = torch.tensor([0, *LENGTHS]).cumsum(0)
        rows = torch.cat([torch.arange(starts[s], starts[s + 1]) for s in chosen])
        length = torch.tensor([LENGTHS[s] for s in chosen])
        begin = length.cumsum(0) - length
        nothing = torch.zeros_like(begin)
        segments = (begin, length, nothing, torch.tensor(chosen) + 1, nothing - 1)
        delta = gated_delta(*(t[rows] for t in (*inputs, *gates)), a_log, bias, states, *segments)
        conv = causal_conv(x[rows], taps, tails, *segments)
        return [
            torch.cat([d.flatten(1), c], -1)
            for d, c in zip(delta.split(length.tolist()), conv.split(length.tolist()), strict=True)
        ]

    with use_all(FIXED):
        whole = run(list(range(count)))
        for chosen in ([0], [3], [6], [4, 1], [6, 5, 2, 0]):
            for s, found in zip(chosen, run(chosen), strict=True):
                assert torch.equal(found, whole[s])


@pytest.mark.parametrize("dtype", DTYPES)
def test_runs_of_attention_however_their_ancestors_lie(dtype: torch.dtype) -> None:
    heads, dim, state = 4, 16, 70
    total = sum(LENGTHS)
    q = random(total, heads, dim, dtype=dtype)
    pool = [random(600, 2, dim, dtype=dtype, seed=n) for n in (1, 2)]
    starts = torch.tensor([0, *LENGTHS]).cumsum(0)

    def run(chosen: list[int], cut: int) -> list[torch.Tensor]:
        """The state lies in slots 0.. in one span, or with its end moved elsewhere."""
        keys, values = (p.clone() for p in pool)
        spans = [[0, state]]
        if cut:
            for p in (keys, values):
                p[500 : 500 + state - cut] = p[cut:state].clone()
            spans = [[0, cut], [500, state - cut]]
        length = torch.tensor([LENGTHS[s] for s in chosen])
        rows = torch.cat([torch.arange(starts[s], starts[s + 1]) for s in chosen])
        out = tree_attention(
            q[rows],
            keys,
            values,
            length.cumsum(0) - length,
            length,
            torch.tensor([100 + int(starts[s]) for s in chosen]),
            length,
            torch.arange(len(chosen) + 1) * len(spans),
            torch.tensor(spans * len(chosen)),
            dim**-0.5,
        )
        return list(out.split(length.tolist()))

    with use_all(FIXED):
        whole = run(list(range(len(LENGTHS))), 0)
        for chosen, cut in (([0], 0), ([6], 33), ([4, 1], 64), ([6, 5, 2, 0], 1)):
            for s, found in zip(chosen, run(chosen, cut), strict=True):
                assert torch.equal(found, whole[s])


def test_questions_of_a_readout() -> None:
    hidden, head, weight = random(9, 32), random(100, 32, seed=1), random(32, seed=2)
    counts = (2, 26, 27, 3)
    ids = [torch.arange(c) + c for c in counts]

    def read(chosen: list[int]) -> list[torch.Tensor]:
        offsets = torch.tensor([0, *(counts[i] for i in chosen)]).cumsum(0)
        labels = torch.cat([ids[i] for i in chosen])
        made = label_readout(
            hidden,
            head,
            torch.tensor(chosen) * 2,
            weight,
            1e-6,
            False,
            offsets,
            labels,
            torch.zeros(len(labels)),
            torch.full((len(chosen),), 1.3),
        )
        return list(made.probabilities.split([counts[i] for i in chosen]))

    with use_all(FIXED):
        whole = read([0, 1, 2, 3])
        for chosen in ([1], [3, 0], [2, 1, 0]):
            for i, found in zip(chosen, read(chosen), strict=True):
                assert torch.equal(found, whole[i])


def test_every_operator_of_a_forward_has_one() -> None:
    assert set(OPS) - {name for name, _ in FIXED} <= {"unpack"}  # it only moves numbers


@pytest.mark.parametrize(("width", "rows"), [(64, 512), (896, 36), (40_000, 1), (6, 5440)])
def test_a_tile_is_small_and_ends_with_a_full_vector(width: int, rows: int) -> None:
    assert tile_rows(width) == rows
    assert rows * width <= 32768 or rows == 1
    assert rows * width % 64 == 0 or rows == 1
