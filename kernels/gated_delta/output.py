"""The third pass of the delta rule: the outputs, all chunks at once."""

from __future__ import annotations

import triton
import triton.language as tl

from readoff.kernels.gated_delta.prepare import CHUNK


@triton.jit
def output(
    q,
    k,
    chunk_rows,
    total_in,
    unit_in,
    values_in,
    chunk_states,
    out,
    scale,
    Q_ROW: tl.constexpr,
    Q_HEAD: tl.constexpr,
    K_ROW: tl.constexpr,
    K_HEAD: tl.constexpr,
    HEADS: tl.constexpr,
    REPEAT: tl.constexpr,
    DK: tl.constexpr,
    DV: tl.constexpr,
    BLOCK_V: tl.constexpr,
    BLOCK_D: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """BLOCK_V columns of one chunk of one value head: e^G q S + tril(q kᵀ e^(G_i-G_j)) V'.

    Grid: (upper bound of chunks, value heads, DV / BLOCK_V). The norms of q and k and the scale
    are folded into the gates: q and k are multiplied as they are in memory.
    """
    chunk, head, column = tl.program_id(0), tl.program_id(1), tl.program_id(2) * BLOCK_V
    rows = tl.load(chunk_rows + 2 * chunk + 1)
    if rows == 0:
        return
    start = tl.load(chunk_rows + 2 * chunk).to(tl.int64)
    product: tl.constexpr = values_in.dtype.element_ty
    t, d, dv = tl.arange(0, CHUNK), tl.arange(0, BLOCK_D), tl.arange(0, BLOCK_V)
    inside = (t < rows)[:, None]
    made = chunk.to(tl.int64) * HEADS + head
    q_tile = q + start * Q_ROW + (head // REPEAT) * Q_HEAD + t[:, None] * Q_ROW + d[None, :]
    k_tile = k + start * K_ROW + (head // REPEAT) * K_HEAD + t[None, :] * K_ROW + d[:, None]
    s_tile = chunk_states + made * (DK * DV) + d[:, None] * DV + (column + dv)[None, :]
    square = tl.zeros([CHUNK], tl.float32)
    attention = tl.zeros([CHUNK, CHUNK], tl.float32)
    result = tl.zeros([CHUNK, BLOCK_V], tl.float32)
    for at in range(0, DK, BLOCK_D):
        queries = tl.load(q_tile + at, mask=inside, other=0.0)
        keys = tl.load(k_tile + at, mask=(t < rows)[None, :], other=0.0).to(product)
        state = tl.load(s_tile + at * DV)
        wide = queries.to(tl.float32)
        square += tl.sum(wide * wide, axis=1)
        queries = queries.to(product)
        result = tl.dot(queries, state, result, input_precision=PRECISION)
        attention = tl.dot(queries, keys, attention, input_precision=PRECISION)
    unit_q = tl.rsqrt(square + 1e-6) * scale
    unit_k = tl.load(unit_in + made * CHUNK + t)
    total = tl.load(total_in + made * CHUNK + t)
    result *= (unit_q * tl.exp(total))[:, None]
    decay = tl.exp(tl.minimum(tl.maximum(total[:, None] - total[None, :], -80.0), 0.0))
    attention *= decay * unit_q[:, None] * unit_k[None, :]
    attention = tl.where(t[:, None] >= t[None, :], attention, 0.0).to(product)
    columns = t[:, None] * DV + (column + dv)[None, :]
    values = tl.load(values_in + made * (CHUNK * DV) + columns)
    result = tl.dot(attention, values, result, input_precision=PRECISION)
    columns = t[:, None] * (HEADS * DV) + (column + dv)[None, :]
    target = out + (start * HEADS + head) * DV + columns
    tl.store(target, result.to(out.dtype.element_ty), mask=inside)
