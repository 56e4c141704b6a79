"""Causal convolution and the tails it leaves behind, in one launch.

What lies before a segment is read where it was first written: from the rows of ancestors in this
batch, and from a stored tail above the topmost of them. So no program waits for a tail that
another one writes, and segments of any depth are worked off at once.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from readoff.kernels.dispatch import KernelInputError
from readoff.kernels.specimens import Specimen

MAX_TAPS = 8

BLOCK_T = 16
"""Rows of a tile: enough to hide the taps' overlap, few enough to fill a GPU with 40 tokens."""

CHANNEL_BYTES = 512
"""Of a tile's row: 16 bytes for each thread of a warp."""

WARPS = 4

SCAN = 128
"""Segments that a program looks at at a time while it searches for its own."""

SEGMENT_TENSORS = ("seg_start", "seg_length", "seg_parent", "parent_state", "state_out")


def causal_conv(
    x: torch.Tensor,
    weight: torch.Tensor,
    tails: torch.Tensor,
    seg_start: torch.Tensor,
    seg_length: torch.Tensor,
    seg_depth: torch.Tensor,
    parent_state: torch.Tensor,
    state_out: torch.Tensor,
    seg_parent: torch.Tensor | None = None,
) -> torch.Tensor:
    """See the contract in the package's docstring. Up to 8 taps.

    Raises:
        KernelInputError: more taps.
    """
    tokens, channels = x.shape
    taps, segments = weight.shape[1], len(seg_length)
    if taps > MAX_TAPS:
        raise KernelInputError(
            f"causal_conv: weight has {taps} taps; its Triton kernel takes up to {MAX_TAPS}"
        )
    out = torch.empty((tokens, channels), dtype=x.dtype, device=x.device)  # [T, C]
    if segments == 0:
        return out
    if seg_parent is None:
        seg_parent = find_parents(seg_depth, parent_state, state_out)
    constants = _constants(channels, taps, x.element_size(), x.stride(0))
    tiles = triton.cdiv(tokens, BLOCK_T) + segments
    convolve[(triton.cdiv(channels, constants["BLOCK_C"]), tiles)](
        x,
        weight,
        tails,
        out,
        seg_start,
        seg_length,
        seg_parent,
        parent_state,
        state_out,
        segments,
        **constants,
        num_warps=WARPS,
        num_stages=1,
    )
    return out


def find_parents(
    seg_depth: torch.Tensor, parent_state: torch.Tensor, state_out: torch.Tensor
) -> torch.Tensor:
    """`seg_parent` [S]: the less deep segment that writes the slot another one starts from."""
    wrote = (parent_state[:, None] == state_out) & (state_out > 0)  # [S, S]
    wrote &= seg_depth[:, None] > seg_depth
    found, parent = wrote.to(torch.int8).max(1)
    return torch.where(found > 0, parent, -1)


def _constants(channels: int, taps: int, bytes_each: int, x_row: int) -> dict[str, int]:
    """The constants of `convolve`; `x_row` is the stride of x's rows."""
    return {
        "X_ROW": x_row,
        "CHANNELS": channels,
        "TAPS": taps,
        "BLOCK_T": BLOCK_T,
        "BLOCK_C": CHANNEL_BYTES // bytes_each,
        "REACH": triton.next_power_of_2(taps - 1),
        "SCAN": SCAN,
    }


def specimens() -> list[Specimen]:
    """The two channel counts of Qwen3.5, x a slice of the fused projection."""
    found = []
    for channels, x_row in ((6144, 8224), (8192, 12352)):
        for dtype, bytes_each in (("bf16", 2), ("fp16", 2), ("fp32", 4)):
            floats = dict.fromkeys(("x", "weight", "tails", "out"), f"*{dtype}")
            found.append(
                Specimen(
                    f"causal_conv.convolve[{dtype}, C={channels}]",
                    convolve,
                    floats | dict.fromkeys(SEGMENT_TENSORS, "*i64") | {"segments": "i32"},
                    _constants(channels, 4, bytes_each, x_row),
                    num_warps=WARPS,
                    num_stages=1,
                )
            )
    return found


@triton.jit
def _find_segment(tile, seg_length, state_out, segments, BLOCK_T: tl.constexpr, SCAN: tl.constexpr):
    """(segment, number of the tile within it); for a tile beyond the last, `segments`.

    An empty segment has one tile where it leaves a tail, otherwise none.
    """
    segment, first, total = 0, 0, 0
    for block in range(0, segments, SCAN):
        i = block + tl.arange(0, SCAN)
        rows = tl.load(seg_length + i, mask=i < segments, other=0).to(tl.int32)
        leaves = tl.load(state_out + i, mask=i < segments, other=-1) >= 0
        count = tl.maximum((rows + BLOCK_T - 1) // BLOCK_T, leaves.to(tl.int32))
        ends = total + tl.cumsum(count, 0)
        before = (ends <= tile) & (i < segments)
        segment += tl.sum(before.to(tl.int32), 0)
        first = tl.maximum(first, tl.max(tl.where(before, ends, 0), 0))
        total = tl.max(ends, 0)
    return segment, tile - first


@triton.jit
def _locate(
    back,
    segment,
    seg_start,
    seg_length,
    seg_parent,
    parent_state,
    TAPS: tl.constexpr,
):
    """Where the rows lie that come `back` [N] rows before the segment's first.

    (whether in x, number of the row there or in tails). From 0 downward they are its own.
    """
    holder = back * 0 + segment  # the segment that is known to begin at or after the row
    x_row = tl.load(seg_start + holder) - back
    in_x = back <= 0
    parent = tl.load(seg_parent + holder).to(tl.int32)
    climbing = (back > 0) & (parent >= 0)
    while tl.max(climbing.to(tl.int32), 0) > 0:
        length = tl.load(seg_length + parent, mask=climbing, other=0).to(tl.int32)
        start = tl.load(seg_start + parent, mask=climbing, other=0)
        holder = tl.where(climbing, parent, holder)
        back = tl.where(climbing, back - length, back)
        here = climbing & (back <= 0)
        x_row = tl.where(here, start - back, x_row)
        in_x = in_x | here
        parent = tl.load(seg_parent + holder).to(tl.int32)
        climbing = (back > 0) & (parent >= 0)
    tail = tl.load(parent_state + holder) * (TAPS - 1) + (TAPS - 1 - back)
    return in_x, tl.where(in_x, x_row, tail)


@triton.jit
def _load_rows(x, tails, in_x, row, channel, wanted, X_ROW: tl.constexpr, CHANNELS: tl.constexpr):
    """Rows [N, C] of x or tails in fp32, 0 where not `wanted`."""
    x_at = (row * X_ROW)[:, None] + channel[None, :]
    from_x = tl.load(x + x_at, mask=wanted & in_x[:, None], other=0.0)
    tails_at = (row * CHANNELS)[:, None] + channel[None, :]
    from_tails = tl.load(tails + tails_at, mask=wanted & (in_x == 0)[:, None], other=0.0)
    return from_x.to(tl.float32) + from_tails.to(tl.float32)


@triton.jit(
    do_not_specialize=["segments"],
    do_not_specialize_on_alignment=SEGMENT_TENSORS,
)
def convolve(
    x,
    weight,
    tails,
    out,
    seg_start,
    seg_length,
    seg_parent,
    parent_state,
    state_out,
    segments,
    X_ROW: tl.constexpr,
    CHANNELS: tl.constexpr,
    TAPS: tl.constexpr,
    BLOCK_T: tl.constexpr,
    BLOCK_C: tl.constexpr,
    REACH: tl.constexpr,
    SCAN: tl.constexpr,
):
    """BLOCK_T rows of one segment and BLOCK_C channels; its last tile writes the tail too.

    Grid: (channel tiles, row tiles), row tiles an upper bound from shapes. REACH is a power of
    two that is at least TAPS - 1.
    """
    segment, tile = _find_segment(tl.program_id(1), seg_length, state_out, segments, BLOCK_T, SCAN)
    if segment >= segments:
        return
    length = tl.load(seg_length + segment).to(tl.int32)
    start = tl.load(seg_start + segment)
    channel = tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C)
    exists = channel < CHANNELS
    row = tile * BLOCK_T + tl.arange(0, BLOCK_T)
    real = (row < length)[:, None] & exists[None, :]
    y = tl.zeros([BLOCK_T, BLOCK_C], tl.float32)
    if tile == 0:
        reach = tl.arange(0, REACH) + 1
        before_in_x, before = _locate(
            tl.minimum(reach, TAPS - 1),
            segment,
            seg_start,
            seg_length,
            seg_parent,
            parent_state,
            TAPS,
        )
        for back in tl.static_range(TAPS):
            same = (back - row)[:, None] == reach[None, :]  # [T, REACH]
            own = row >= back
            source = tl.sum(tl.where(same, before[None, :], 0), 1)
            source = tl.where(own, start + row - back, source)
            in_x = own | (tl.sum((same & before_in_x[None, :]).to(tl.int32), 1) > 0)
            rows = _load_rows(x, tails, in_x, source, channel, real, X_ROW, CHANNELS)
            factor = tl.load(weight + channel * TAPS + (TAPS - 1 - back), mask=exists, other=0.0)
            y += rows * factor.to(tl.float32)[None, :]
    else:
        base = x + (start + tile * BLOCK_T) * X_ROW
        at = tl.arange(0, BLOCK_T)[:, None] * X_ROW + channel[None, :]
        for back in tl.static_range(TAPS):
            rows = tl.load(base - back * X_ROW + at, mask=real, other=0.0).to(tl.float32)
            factor = tl.load(weight + channel * TAPS + (TAPS - 1 - back), mask=exists, other=0.0)
            y += rows * factor.to(tl.float32)[None, :]
    y = y / (1.0 + tl.exp(tl.minimum(-y, 88.0)))  # beyond that exp overflows, and y is 0
    tl.store(
        out
        + (start + tile * BLOCK_T) * CHANNELS
        + (row - tile * BLOCK_T)[:, None] * CHANNELS
        + channel[None, :],
        y.to(out.dtype.element_ty),
        mask=real,
    )
    slot = tl.load(state_out + segment)
    if (slot >= 0) & (tile * BLOCK_T + BLOCK_T >= length):
        place = tl.arange(0, REACH)
        left_in_x, left_row = _locate(
            TAPS - 1 - place - length,
            segment,
            seg_start,
            seg_length,
            seg_parent,
            parent_state,
            TAPS,
        )
        wanted = (place < TAPS - 1)[:, None] & exists[None, :]
        left = _load_rows(x, tails, left_in_x, left_row, channel, wanted, X_ROW, CHANNELS)
        goes = slot * ((TAPS - 1) * CHANNELS) + place[:, None] * CHANNELS + channel[None, :]
        tl.store(tails + goes, left.to(tails.dtype.element_ty), mask=wanted)
