"""The first pass of the delta rule: what a chunk needs before any state is known.

Inside a chunk, with G the running sum of log α and A the strictly lower part of
β (K Kᵀ) e^(G_i-G_j), the values written are V' = u - w S, where u = (I + A)⁻¹ β V and
w = (I + A)⁻¹ β e^G K, K normalised (the WY form of "Gated Delta Networks", Yang et al., 2024).
Rounding u and w to bf16 is harmless, rounding the inverse is not: over 64 equal keys the rows of
the inverse cancel, those of u and w shrink on their own. So the inverse is fp32, and its products
take it in two parts.
"""

from __future__ import annotations

import triton
import triton.language as tl

CHUNK: tl.constexpr = tl.constexpr(64)


@triton.jit
def locate(seg_length, segments, chunk, BLOCK_S: tl.constexpr):
    """The segment that a chunk of the grid belongs to, and its number in it, by counting chunks.

    The segment is `segments` where the grid is longer than the work.
    """
    segment, first, counted = 0, 0, 0
    for at in range(0, segments, BLOCK_S):
        index = at + tl.arange(0, BLOCK_S)
        inside = index < segments
        length = tl.load(seg_length + index, mask=inside, other=0).to(tl.int32)
        chunks = (length + CHUNK - 1) // CHUNK
        before = (counted + tl.cumsum(chunks, 0) <= chunk) & inside
        segment += tl.sum(before.to(tl.int32), 0)
        first += tl.sum(tl.where(before, chunks, 0), 0)
        counted += tl.sum(chunks, 0)
    return segment, chunk - first


@triton.jit
def softplus(x):
    """log(1 + e^x); a series where 1 + e^-|x| would round its small part away."""
    y = tl.exp(-tl.abs(x))
    series = y * (1.0 - y * (1 / 2 - y * (1 / 3 - y * (1 / 4 - y * (1 / 5 - y / 6)))))
    return tl.maximum(x, 0.0) + tl.where(y < 0.05, series, tl.log(1.0 + y))


@triton.jit
def join(x, system, PAIRS: tl.constexpr, SIZE: tl.constexpr, PRECISION: tl.constexpr):
    """Inverses of neighbouring blocks, [2 PAIRS, SIZE, SIZE] -> [PAIRS, 2 SIZE, 2 SIZE].

    `system`: [PAIRS, 2, SIZE, PAIRS, 2, SIZE]. Below X₀ and beside X₁, with B between them, comes
    -X₁ B X₀.
    """
    pair, half = tl.arange(0, PAIRS), tl.arange(0, 2)
    own = (pair[:, None] == pair[None, :])[:, None, None, :, None, None]
    between = tl.sum(tl.where(own, system, 0.0), axis=3)  # [PAIRS, 2, SIZE, 2, SIZE]
    lower = half[:, None] > half[None, :]
    between = tl.where(lower[None, :, None, :, None], between, 0.0)
    between = tl.sum(tl.sum(between, axis=3), axis=1)  # [PAIRS, SIZE, SIZE]
    x = tl.reshape(x, [PAIRS, 2, SIZE, SIZE])
    first = tl.sum(tl.where((half == 0)[None, :, None, None], x, 0.0), axis=1)
    second = tl.sum(tl.where((half == 1)[None, :, None, None], x, 0.0), axis=1)
    if PAIRS == 1:
        first, second = tl.reshape(first, [SIZE, SIZE]), tl.reshape(second, [SIZE, SIZE])
        between = tl.reshape(between, [SIZE, SIZE])
    between = tl.dot(second, between, input_precision=PRECISION)
    between = tl.dot(between, first, input_precision=PRECISION)
    between = tl.reshape(between, [PAIRS, 1, SIZE, 1, SIZE])
    same = (half[:, None] == half[None, :])[None, :, None, :, None]
    made = tl.where(same, x[:, :, :, None, :], 0.0)
    made = tl.where(lower[None, :, None, :, None], -between, made)
    return tl.reshape(made, [PAIRS, 2 * SIZE, 2 * SIZE])


@triton.jit
def invert(system, PRECISION: tl.constexpr):
    """(I + system)⁻¹ of a strictly lower [64, 64], fp32, by block recursion.

    The 16 x 16 blocks of the diagonal by forward substitution, all four at once; then twice, for
    neighbours X₀ and X₁ with B between them, the block below the diagonal is -X₁ B X₀. Powers of
    `system` are never taken: they explode on equal keys.
    """
    block, inner = tl.arange(0, 4), tl.arange(0, 16)
    same = (block[:, None] == block[None, :])[:, None, :, None]
    x = -tl.sum(tl.where(same, tl.reshape(system, [4, 16, 4, 16]), 0.0), axis=2)  # [4, 16, 16]
    for i in range(2, 16):
        here = (inner == i)[None, :, None]
        row = tl.sum(tl.where(here, x, 0.0), axis=1)  # [4, 16]
        row += tl.sum(row[:, :, None] * x, axis=1)
        x = tl.where(here, row[:, None, :], x)
    x += (inner[:, None] == inner[None, :]).to(tl.float32)[None, :, :]
    x = join(x, tl.reshape(system, [2, 2, 16, 2, 2, 16]), 2, 16, PRECISION)
    x = join(x, tl.reshape(system, [1, 2, 32, 1, 2, 32]), 1, 32, PRECISION)
    return tl.reshape(x, [64, 64])


@triton.jit
def apply(matrix, x, PRECISION: tl.constexpr):
    """matrix (fp32) times x, which keeps its own dtype: bf16 takes the matrix in two parts."""
    if x.dtype == tl.float32:
        return tl.dot(matrix, x, input_precision=PRECISION)
    coarse = matrix.to(x.dtype)
    fine = (matrix - coarse.to(tl.float32)).to(x.dtype)
    return tl.dot(fine, x, tl.dot(coarse, x))


@triton.jit(do_not_specialize=["segments"])
def prepare(
    k,
    v,
    a,
    b,
    a_log,
    dt_bias,
    seg_start,
    seg_length,
    chunk_rows,
    first_chunk,
    total_out,
    unit_out,
    w_out,
    u_out,
    segments,
    K_ROW: tl.constexpr,
    K_HEAD: tl.constexpr,
    V_ROW: tl.constexpr,
    V_HEAD: tl.constexpr,
    A_ROW: tl.constexpr,
    B_ROW: tl.constexpr,
    HEADS: tl.constexpr,
    REPEAT: tl.constexpr,
    DK: tl.constexpr,
    DV: tl.constexpr,
    BLOCK_S: tl.constexpr,
    BLOCK_D: tl.constexpr,
    PRECISION: tl.constexpr,
    EXACT: tl.constexpr,
):
    """One chunk of one value head. Grid: (upper bound of chunks, value heads).

    Writes, by chunk and head, G and 1/|k| [64] fp32, w [64, DK] and u [64, DV]; by chunk
    `chunk_rows` (first row, rows; 0 rows beyond the work); by segment `first_chunk`. Padded rows
    neither decay nor write: their w and u are 0.
    """
    chunk, head = tl.program_id(0), tl.program_id(1)
    segment, number = locate(seg_length, segments, chunk, BLOCK_S)
    if segment >= segments:
        if head == 0:
            tl.store(chunk_rows + 2 * chunk, 0)
            tl.store(chunk_rows + 2 * chunk + 1, 0)
        return
    start = tl.load(seg_start + segment) + number * CHUNK
    rows = tl.minimum(tl.load(seg_length + segment).to(tl.int32) - number * CHUNK, CHUNK)
    if head == 0:
        tl.store(chunk_rows + 2 * chunk, start.to(tl.int32))
        tl.store(chunk_rows + 2 * chunk + 1, rows)
        if number == 0:
            tl.store(first_chunk + segment, chunk)

    t, d = tl.arange(0, CHUNK), tl.arange(0, BLOCK_D)
    inside = t < rows
    raw = tl.load(a + start * A_ROW + head + t * A_ROW, mask=inside, other=0.0).to(tl.float32)
    raw += tl.load(dt_bias + head).to(tl.float32)
    rate = tl.exp(tl.load(a_log + head).to(tl.float32))
    total = tl.cumsum(tl.where(inside, -rate * softplus(raw), 0.0), 0)  # G: [64]
    beta = tl.load(b + start * B_ROW + head + t * B_ROW, mask=inside, other=0.0).to(tl.float32)
    beta = tl.where(inside, tl.sigmoid(beta), 0.0)

    product: tl.constexpr = w_out.dtype.element_ty
    tile = k + start * K_ROW + (head // REPEAT) * K_HEAD + t[:, None] * K_ROW + d[None, :]
    square = tl.zeros([CHUNK], tl.float32)
    system = tl.zeros([CHUNK, CHUNK], tl.float32)
    for at in range(0, DK, BLOCK_D):
        keys = tl.load(tile + at, mask=inside[:, None], other=0.0)
        wide = keys.to(tl.float32)
        square += tl.sum(wide * wide, axis=1)
        keys = keys.to(product)
        system = tl.dot(keys, tl.trans(keys), system, input_precision=PRECISION)
    unit = tl.rsqrt(square + 1e-6)
    decay = tl.exp(tl.minimum(tl.maximum(total[:, None] - total[None, :], -80.0), 0.0))
    system *= decay * (beta * unit)[:, None] * unit[None, :]
    inverse = invert(tl.where(t[:, None] > t[None, :], system, 0.0), EXACT)

    made = chunk.to(tl.int64) * HEADS + head
    tl.store(total_out + made * CHUNK + t, total)
    tl.store(unit_out + made * CHUNK + t, unit)
    matrix = inverse * (beta * tl.exp(total) * unit)[None, :]
    target = w_out + made * (CHUNK * DK) + t[:, None] * DK + d[None, :]
    for at in range(0, DK, BLOCK_D):
        keys = tl.load(tile + at, mask=inside[:, None], other=0.0).to(product)
        tl.store(target + at, apply(matrix, keys, EXACT).to(product))
    matrix = inverse * beta[None, :]
    tile = v + start * V_ROW + head * V_HEAD + t[:, None] * V_ROW + d[None, :]
    target = u_out + made * (CHUNK * DV) + t[:, None] * DV + d[None, :]
    for at in range(0, DV, BLOCK_D):
        values = tl.load(tile + at, mask=inside[:, None], other=0.0).to(product)
        tl.store(target + at, apply(matrix, values, EXACT).to(product))
