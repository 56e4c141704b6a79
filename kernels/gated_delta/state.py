"""The second pass of the delta rule: the states, chunk after chunk."""

from __future__ import annotations

import triton
import triton.language as tl

from readoff.kernels.gated_delta.prepare import CHUNK


@triton.jit
def continues(s, segments, turn, seg_turn, parent_state, state_out):
    """Whether segment s goes on, in this turn, from the final state of segment s - 1."""
    there = (s > 0) & (s < segments)
    parent = tl.load(parent_state + s, mask=there, other=0)
    before = tl.load(state_out + s - 1, mask=there, other=-1)
    own = tl.load(seg_turn + s, mask=there, other=-1)
    others = tl.load(seg_turn + s - 1, mask=there, other=-1)
    return (parent > 0) & (parent == before) & (own == turn) & (others == turn)


@triton.jit
def part(x, at, ROWS: tl.constexpr):
    """Rows at .. at + ROWS of a tile."""
    if x.shape[0] == ROWS:
        return x
    blocks = tl.reshape(x, [x.shape[0] // ROWS, ROWS, x.shape[1]])
    here = tl.arange(0, x.shape[0] // ROWS) == at // ROWS
    return tl.sum(tl.where(here[:, None, None], blocks, 0.0), axis=0)


@triton.jit(do_not_specialize=["segments", "turn"])
def advance(
    k,
    states,
    seg_length,
    seg_turn,
    parent_state,
    state_out,
    chunk_rows,
    first_chunk,
    total_in,
    unit_in,
    w_in,
    values_inout,
    chunk_states,
    segments,
    turn,
    K_ROW: tl.constexpr,
    K_HEAD: tl.constexpr,
    HEADS: tl.constexpr,
    REPEAT: tl.constexpr,
    DK: tl.constexpr,
    DV: tl.constexpr,
    BLOCK_V: tl.constexpr,
    BLOCK_D: tl.constexpr,
    BLOCK_T: tl.constexpr,
    WALK: tl.constexpr,
    PRECISION: tl.constexpr,
    STAGES: tl.constexpr,
):
    """BLOCK_V columns of the state of one value head, from one segment of this turn on.

    Grid: (segments, value heads, DV / BLOCK_V). Only segments of this turn that don't go on from
    their neighbour do anything; with WALK they go on to the next ones as long as those do. Writes
    the state before each chunk to `chunk_states`, V' = u - w S in the place of u, and final states
    to their slots.
    """
    s, head, column = tl.program_id(0), tl.program_id(1), tl.program_id(2) * BLOCK_V
    if tl.load(seg_turn + s) != turn:
        return
    if WALK and continues(s, segments, turn, seg_turn, parent_state, state_out):
        return
    product: tl.constexpr = w_in.dtype.element_ty
    t, dk, dv = tl.arange(0, CHUNK), tl.arange(0, DK), tl.arange(0, BLOCK_V)
    r, d = tl.arange(0, BLOCK_T), tl.arange(0, BLOCK_D)
    square = dk[:, None] * DV + (column + dv)[None, :]  # of a state: [DK, BLOCK_V]
    parent = tl.load(parent_state + s)
    slot = states + (parent * HEADS + head) * (DK * DV)
    state = tl.load(slot + square, mask=square < tl.where(parent > 0, DK * DV, 0), other=0.0)
    going = s >= 0
    while going:
        chunks = (tl.load(seg_length + s).to(tl.int32) + CHUNK - 1) // CHUNK
        first = tl.load(first_chunk + s, mask=chunks > 0, other=0).to(tl.int64)
        for chunk in tl.range(first, first + chunks, num_stages=STAGES):
            start = tl.load(chunk_rows + 2 * chunk).to(tl.int64)
            rows = tl.load(chunk_rows + 2 * chunk + 1)
            made = chunk * HEADS + head
            total = tl.load(total_in + made * CHUNK + t)
            unit = tl.load(unit_in + made * CHUNK + t)
            last = tl.load(total_in + made * CHUNK + (CHUNK - 1))
            read = state.to(product)
            tl.store(chunk_states + made * (DK * DV) + square, read)
            known = tl.zeros([CHUNK, BLOCK_V], tl.float32)
            w_tile = w_in + made * (CHUNK * DK) + t[:, None] * DK + d[None, :]
            for at in range(0, DK, BLOCK_D):
                w = tl.load(w_tile + at)
                known = tl.dot(w, part(read, at, BLOCK_D), known, input_precision=PRECISION)
            tile = values_inout + made * (CHUNK * DV) + t[:, None] * DV + (column + dv)[None, :]
            values = tl.load(tile).to(tl.float32) - known
            tl.store(tile, values.to(product))
            write = (values * (tl.exp(last - total) * unit)[:, None]).to(product)
            state *= tl.exp(last)
            k_tile = k + start * K_ROW + (head // REPEAT) * K_HEAD
            k_tile = k_tile + dk[:, None] + r[None, :] * K_ROW  # transposed
            for at in range(0, CHUNK, BLOCK_T):
                inside = (at + r < rows)[None, :]
                keys = tl.load(k_tile + at * K_ROW, mask=inside, other=0.0).to(product)
                state = tl.dot(keys, part(write, at, BLOCK_T), state, input_precision=PRECISION)
        out = tl.load(state_out + s)
        if out >= 0:
            slot = states + (out * HEADS + head) * (DK * DV)
            tl.store(slot + square, state)
        s += 1
        going = (s < segments) & WALK
        if going:
            going = continues(s, segments, turn, seg_turn, parent_state, state_out)
