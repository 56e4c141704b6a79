"""q/k norm, rotary embedding and the write into the KV pools as one Triton kernel."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from readoff.kernels.specimens import Specimen


@triton.jit
def turn_heads(
    source,
    target,
    weight,
    cos,
    sin,
    eps,
    COUNT: tl.constexpr,
    D: tl.constexpr,
    HALF: tl.constexpr,
    SOURCE_HEAD: tl.constexpr,
    TARGET_HEAD: tl.constexpr,
    PLUS_ONE: tl.constexpr,
    HEADS: tl.constexpr,
    BLOCK_HALF: tl.constexpr,
    BLOCK_REST: tl.constexpr,
):
    """All heads of one token: normed where there is a weight, the first 2·HALF dimensions turned.

    Both halves and the rest are loaded apart, each in whole vectors; the norm's sum joins them.
    """
    head = tl.arange(0, HEADS)[:, None]
    half = tl.arange(0, BLOCK_HALF)[None, :]
    inside = (head < COUNT) & (half < HALF)
    first = tl.load(source + (head * SOURCE_HEAD + half), mask=inside, other=0.0).to(tl.float32)
    second = tl.load(source + (head * SOURCE_HEAD + half + HALF), mask=inside, other=0.0)
    second = second.to(tl.float32)
    if D > 2 * HALF:
        last = 2 * HALF + tl.arange(0, BLOCK_REST)[None, :]
        beyond = (head < COUNT) & (last < D)
        rest = tl.load(source + (head * SOURCE_HEAD + last), mask=beyond, other=0.0)
        rest = rest.to(tl.float32)
    if weight is not None:
        square = tl.sum(first * first, axis=1) + tl.sum(second * second, axis=1)
        if D > 2 * HALF:
            square += tl.sum(rest * rest, axis=1)
        inverse = (1.0 / tl.sqrt(square / D + eps))[:, None]
        extra = 1.0 if PLUS_ONE else 0.0
        scale = tl.load(weight + half, mask=half < HALF, other=0.0).to(tl.float32)
        first *= inverse * (scale + extra)
        scale = tl.load(weight + half + HALF, mask=half < HALF, other=0.0).to(tl.float32)
        second *= inverse * (scale + extra)
        if D > 2 * HALF:
            scale = tl.load(weight + last, mask=last < D, other=0.0).to(tl.float32)
            rest *= inverse * (scale + extra)
    c = tl.load(cos + half, mask=half < HALF, other=0.0)
    s = tl.load(sin + half, mask=half < HALF, other=0.0)
    kind = target.dtype.element_ty
    at = target + (head * TARGET_HEAD + half)
    tl.store(at, (first * c - second * s).to(kind), mask=inside)
    tl.store(at + HALF, (second * c + first * s).to(kind), mask=inside)
    if D > 2 * HALF:
        tl.store(target + (head * TARGET_HEAD + last), rest.to(kind), mask=beyond)


@triton.jit(do_not_specialize=["queries"], do_not_specialize_on_alignment=["q_rows", "slots"])
def write_row(
    q,
    k,
    v,
    q_weight,
    k_weight,
    cos,
    sin,
    q_rows,
    k_pool,
    v_pool,
    slots,
    out,
    eps,
    queries,
    Q_COUNT: tl.constexpr,
    KV_COUNT: tl.constexpr,
    D: tl.constexpr,
    HALF: tl.constexpr,
    Q_ROW: tl.constexpr,
    Q_HEAD: tl.constexpr,
    K_ROW: tl.constexpr,
    K_HEAD: tl.constexpr,
    V_ROW: tl.constexpr,
    V_HEAD: tl.constexpr,
    POOL_ROW: tl.constexpr,
    POOL_HEAD: tl.constexpr,
    PLUS_ONE: tl.constexpr,
    Q_HEADS: tl.constexpr,
    KV_HEADS: tl.constexpr,
    BLOCK_D: tl.constexpr,
    BLOCK_HALF: tl.constexpr,
    BLOCK_REST: tl.constexpr,
):
    """The heads of one query row, or the keys and values of one token; grid (M + T,)."""
    program = tl.program_id(0)
    if program < queries:
        row = program.to(tl.int64)
        angle = row
        if q_rows is not None:
            angle = tl.load(q_rows + row)
        turn_heads(
            q + row * Q_ROW,
            out + row * (Q_COUNT * D),
            q_weight,
            cos + angle * HALF,
            sin + angle * HALF,
            eps,
            Q_COUNT,
            D,
            HALF,
            Q_HEAD,
            D,
            PLUS_ONE,
            Q_HEADS,
            BLOCK_HALF,
            BLOCK_REST,
        )
    else:
        row = (program - queries).to(tl.int64)
        slot = tl.load(slots + row)
        if slot >= 0:
            turn_heads(
                k + row * K_ROW,
                k_pool + slot * POOL_ROW,
                k_weight,
                cos + row * HALF,
                sin + row * HALF,
                eps,
                KV_COUNT,
                D,
                HALF,
                K_HEAD,
                POOL_HEAD,
                PLUS_ONE,
                KV_HEADS,
                BLOCK_HALF,
                BLOCK_REST,
            )
            head = tl.arange(0, KV_HEADS)[:, None]
            column = tl.arange(0, BLOCK_D)[None, :]
            inside = (head < KV_COUNT) & (column < D)
            value = tl.load(v + row * V_ROW + (head * V_HEAD + column), mask=inside, other=0.0)
            at = v_pool + slot * POOL_ROW + (head * POOL_HEAD + column)
            tl.store(at, value.to(v_pool.dtype.element_ty), mask=inside)


def norm_rope_write(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    q_weight: torch.Tensor | None,
    k_weight: torch.Tensor | None,
    eps: float,
    plus_one: bool,
    cos: torch.Tensor,
    sin: torch.Tensor,
    q_rows: torch.Tensor | None,
    k_pool: torch.Tensor,
    v_pool: torch.Tensor,
    slots: torch.Tensor,
) -> torch.Tensor:
    """See the operator. One launch."""
    (queries, heads, dim), (tokens, kv_heads, _) = q.shape, k.shape
    out = torch.empty(q.shape, dtype=q.dtype, device=q.device)  # [M, Hq, D]
    sizes, warps = _sizes(heads, kv_heads, dim, cos.shape[1])
    write_row[(queries + tokens,)](
        *(q, k, v, q_weight, k_weight, cos, sin, q_rows, k_pool, v_pool, slots, out),
        *(eps, queries),
        Q_ROW=q.stride(0),
        Q_HEAD=q.stride(1),
        K_ROW=k.stride(0),
        K_HEAD=k.stride(1),
        V_ROW=v.stride(0),
        V_HEAD=v.stride(1),
        POOL_ROW=k_pool.stride(0),
        POOL_HEAD=k_pool.stride(1),
        PLUS_ONE=plus_one,
        **sizes,
        num_warps=warps,
        num_stages=1,
    )
    return out


def _sizes(heads: int, kv_heads: int, dim: int, half: int) -> tuple[dict[str, int], int]:
    """(the model's shape and its powers of 2, warps): a warp for every 512 elements of a query."""
    power = triton.next_power_of_2
    sizes = {
        "Q_COUNT": heads,
        "KV_COUNT": kv_heads,
        "D": dim,
        "HALF": half,
        "Q_HEADS": power(heads),
        "KV_HEADS": power(kv_heads),
        "BLOCK_D": power(dim),
        "BLOCK_HALF": power(half),
        "BLOCK_REST": power(max(1, dim - 2 * half)),
    }
    return sizes, min(8, max(1, power(heads) * power(dim) // 512))


def specimens() -> list[Specimen]:
    """Heads of the models, q as a slice of the fused projection; read rows in the last layer.

    fp16 is laid out like bf16. fp32 is there for the widest.
    """
    wide = (16, 4, 256, 32)
    return [
        _specimen("bf16", 14, 2, 64, 32, normed=False),
        _specimen("bf16", 16, 8, 128, 64),
        _specimen("bf16", 8, 2, 256, 32),
        _specimen("bf16", *wide),
        _specimen("bf16", *wide, last=True),
        _specimen("fp32", *wide),
    ]


def _specimen(
    dtype: str,
    heads: int,
    kv_heads: int,
    dim: int,
    half: int,
    *,
    normed: bool = True,
    last: bool = False,
) -> Specimen:
    gated = half < dim // 2  # Qwen3.5: each head's query, then its gate
    q_head = 2 * dim if gated else dim
    row = heads * q_head + 2 * kv_heads * dim
    sizes, warps = _sizes(heads, kv_heads, dim, half)
    signature = {
        **dict.fromkeys(("q", "k", "v", "k_pool", "v_pool", "out"), f"*{dtype}"),
        **dict.fromkeys(("cos", "sin"), "*fp32"),
        "slots": "*i64",
        "eps": "fp32",
        "queries": "i32",
    }
    constants: dict[str, int | None] = {
        **sizes,
        "Q_ROW": heads * q_head if last else row,
        "Q_HEAD": q_head,
        **dict.fromkeys(("K_ROW", "V_ROW"), 2 * kv_heads * dim if last else row),
        **dict.fromkeys(("K_HEAD", "V_HEAD", "POOL_HEAD"), dim),
        "POOL_ROW": kv_heads * dim,
        "PLUS_ONE": gated,
    }
    weights = dict.fromkeys(("q_weight", "k_weight"), f"*{dtype}" if normed else None)
    for name, kind in {**weights, "q_rows": "*i64" if last else None}.items():
        if kind is None:
            constants[name] = None
        else:
            signature[name] = kind
    shape = f"{heads}/{kv_heads} x {dim}{', read rows' if last else ''}"
    return Specimen(
        f"norm_rope_write.write_row[{dtype}, {shape}]",
        write_row,
        signature,
        constants,
        num_warps=warps,
        num_stages=1,
    )
