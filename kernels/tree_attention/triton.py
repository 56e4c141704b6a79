"""Tree attention in one launch: query tiles against their ancestors' spans, then against their own.

Flash attention (Dao et al. 2022) with an online softmax (Milakov and Gimelshein 2018) that runs
over the spans of a chain one after the other. The query heads that share a key head are rows of
one tile, so a key tile is loaded once for all of them.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton
import triton.language as tl

from readoff.kernels.dispatch import KernelInputError
from readoff.kernels.specimens import Specimen

SCAN = 128
"""Runs that a program looks at at a time while it searches for its own."""

LOG2_E = 1.4426950408889634

INDEX_TENSORS = (
    "q_start",
    "q_length",
    "kv_start",
    "kv_length",
    "chain_offsets",
    "chain_spans",
)


@dataclass(frozen=True)
class Plan:
    """How a launch is cut: rows (query, head of the group) and keys a tile, warps, stages."""

    rows: int
    keys: int
    warps: int
    stages: int

    @staticmethod
    def choose(dim: int, bytes_each: int, rows_a_run: int) -> Plan:
        """From the head size, the bytes of an element and the mean rows of a run.

        Sized so that no target spills and 99 KiB of shared memory are enough where a
        multiprocessor has no more. A key tile's size never depends on the number of rows: it
        fixes the order in which a query's keys are summed. fp32 has no matrix instructions: it
        is there to be exact, in small tiles that stay in registers.
        """
        if bytes_each == 4:
            return Plan(16, 16 if dim > 128 else 32, 4, 1)
        if dim > 128:
            return Plan(64, 32, 8, 2) if rows_a_run > 16 else Plan(16, 32, 8, 3)
        if rows_a_run > 256:
            return Plan(128, 64, 8, 3)
        return Plan(64, 64, 4, 3) if rows_a_run > 16 else Plan(16, 64, 4, 3)


def tree_attention(
    q: torch.Tensor,
    k_pool: torch.Tensor,
    v_pool: torch.Tensor,
    q_start: torch.Tensor,
    q_length: torch.Tensor,
    kv_start: torch.Tensor,
    kv_length: torch.Tensor,
    chain_offsets: torch.Tensor,
    chain_spans: torch.Tensor,
    scale: float,
) -> torch.Tensor:
    """See the contract in the package's docstring. Heads are 16, 32, 64, 128 or 256 wide.

    Raises:
        KernelInputError: another head size.
    """
    queries, heads, dim = q.shape
    kv_heads, runs = k_pool.shape[1], len(q_length)
    if dim not in (16, 32, 64, 128, 256):
        raise KernelInputError(
            f"tree_attention: heads are {dim} wide; its Triton kernel takes 16, 32, 64, 128, 256"
        )
    out = torch.empty((queries, heads, dim), dtype=q.dtype, device=q.device)  # [M, Hq, D]
    if queries == 0 or runs == 0:
        return out
    rows = queries * (heads // kv_heads)
    plan = Plan.choose(dim, q.element_size(), rows // runs)
    attend[(triton.cdiv(rows, plan.rows) + runs, kv_heads)](
        q,
        k_pool,
        v_pool,
        out,
        q_start,
        q_length,
        kv_start,
        kv_length,
        chain_offsets,
        chain_spans,
        scale * LOG2_E,
        runs,
        **_constants(heads, kv_heads, dim, plan, q.stride(), k_pool.stride(), v_pool.stride()),
        num_warps=plan.warps,
        num_stages=plan.stages,
    )
    return out


def _constants(
    heads: int,
    kv_heads: int,
    dim: int,
    plan: Plan,
    q: tuple[int, ...],
    k: tuple[int, ...],
    v: tuple[int, ...],
) -> dict[str, int]:
    """The constants of `attend`; q, k and v are the strides of its tensors."""
    return {
        "Q_ROW": q[0],
        "Q_HEAD": q[1],
        "K_SLOT": k[0],
        "K_HEAD": k[1],
        "V_SLOT": v[0],
        "V_HEAD": v[1],
        "HEADS": heads,
        "GROUP": heads // kv_heads,
        "DIM": dim,
        "BLOCK_M": plan.rows,
        "BLOCK_N": plan.keys,
        "SCAN": SCAN,
    }


def specimens() -> list[Specimen]:
    """Every tile size at the head shapes of the four models."""
    found = []
    for heads, kv_heads, dim in ((14, 2, 64), (16, 8, 128), (8, 2, 256), (16, 4, 256)):
        for dtype, bytes_each in (("bf16", 2), ("fp16", 2), ("fp32", 4)):
            plans = {Plan.choose(dim, bytes_each, rows) for rows in (16, 17, 257)}
            for plan in sorted(plans, key=lambda plan: plan.rows):
                q, kv = (heads * dim, dim, 1), (kv_heads * dim, dim, 1)
                floats = dict.fromkeys(("q", "k_pool", "v_pool", "out"), f"*{dtype}")
                found.append(
                    Specimen(
                        f"tree_attention.attend[{dtype}, H={heads}/{kv_heads}, D={dim}, "
                        f"rows={plan.rows}]",
                        attend,
                        floats
                        | dict.fromkeys(INDEX_TENSORS, "*i64")
                        | {"scale": "fp32", "runs": "i32"},
                        _constants(heads, kv_heads, dim, plan, q, kv, kv),
                        num_warps=plan.warps,
                        num_stages=plan.stages,
                    )
                )
    return found


@triton.jit
def _find_run(tile, q_length, runs, GROUP: tl.constexpr, BLOCK_M: tl.constexpr, SCAN: tl.constexpr):
    """(run, number of the tile within it); for a tile beyond the last, the run is `runs`."""
    run, first, total = 0, 0, 0
    for block in range(0, runs, SCAN):
        i = block + tl.arange(0, SCAN)
        rows = tl.load(q_length + i, mask=i < runs, other=0).to(tl.int32) * GROUP
        ends = total + tl.cumsum((rows + BLOCK_M - 1) // BLOCK_M, 0)
        before = (ends <= tile) & (i < runs)
        run += tl.sum(before.to(tl.int32), 0)
        first = tl.maximum(first, tl.max(tl.where(before, ends, 0), 0))
        total = tl.max(ends, 0)
    return run, tile - first


@triton.jit(
    do_not_specialize=["runs"],
    do_not_specialize_on_alignment=INDEX_TENSORS,
)
def attend(
    q,
    k_pool,
    v_pool,
    out,
    q_start,
    q_length,
    kv_start,
    kv_length,
    chain_offsets,
    chain_spans,
    scale,
    runs,
    Q_ROW: tl.constexpr,
    Q_HEAD: tl.constexpr,
    K_SLOT: tl.constexpr,
    K_HEAD: tl.constexpr,
    V_SLOT: tl.constexpr,
    V_HEAD: tl.constexpr,
    HEADS: tl.constexpr,
    GROUP: tl.constexpr,
    DIM: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    SCAN: tl.constexpr,
):
    """BLOCK_M rows (query, head of the group) of one run and one key head, over all their keys.

    Grid: (tiles, key heads), tiles an upper bound from shapes. The heaviest tiles of a run, which
    see the most keys, start first. Keys beyond the end of a span are read as its last key and
    weigh nothing, so no load needs a mask.
    `scale` includes log2(e); Q_ROW … V_HEAD are strides in elements.
    """
    tile = tl.num_programs(0) - 1 - tl.program_id(0)
    head = tl.program_id(1)
    run, tile = _find_run(tile, q_length, runs, GROUP, BLOCK_M, SCAN)
    if run >= runs:
        return
    queries = tl.load(q_length + run).to(tl.int32)
    unseen = tl.load(kv_length + run).to(tl.int32) - queries  # own keys before the first query
    own_slot = tl.load(kv_start + run)
    first_query = tile * BLOCK_M // GROUP
    row = tile * BLOCK_M + tl.arange(0, BLOCK_M)
    query = tl.minimum(row // GROUP, queries - 1)  # [M]
    q_row = tl.load(q_start + run) + first_query
    dims = tl.arange(0, DIM)
    q_offset = (query - first_query) * Q_ROW + row % GROUP * Q_HEAD
    q_tile = tl.load(
        q + q_row * Q_ROW + head * (GROUP * Q_HEAD) + q_offset[:, None] + dims[None, :]
    )  # [M, D]

    column = tl.arange(0, BLOCK_N)
    best = tl.full([BLOCK_M], float("-inf"), tl.float32)
    weight = tl.zeros([BLOCK_M], tl.float32)
    result = tl.zeros([BLOCK_M, DIM], tl.float32)
    last_query = tl.minimum((tile * BLOCK_M + BLOCK_M - 1) // GROUP, queries - 1)
    first_span = tl.load(chain_offsets + run).to(tl.int32)
    own_span = tl.load(chain_offsets + run + 1).to(tl.int32)
    for span in range(first_span, own_span + 1):
        ancestor = span < own_span
        slot = tl.load(chain_spans + 2 * span, mask=ancestor, other=0)
        length = tl.load(chain_spans + 2 * span + 1, mask=ancestor, other=0).to(tl.int32)
        slot = tl.where(ancestor, slot, own_slot)
        length = tl.where(ancestor, length, unseen + last_query + 1)
        seen = tl.where(ancestor, length, unseen + query + 1)  # [M]
        for start in range(0, length, BLOCK_N):
            key = tl.minimum(column, length - 1 - start)  # [N]
            k = tl.load(
                k_pool
                + (slot + start) * K_SLOT
                + head * K_HEAD
                + key[None, :] * K_SLOT
                + dims[:, None]
            )  # [D, N]
            scores = tl.dot(q_tile, k, input_precision="ieee") * scale
            scores = tl.where(start + column[None, :] < seen[:, None], scores, float("-inf"))
            better = tl.maximum(best, tl.max(scores, 1))
            p = tl.exp2(scores - better[:, None])
            fade = tl.exp2(best - better)
            weight = weight * fade + tl.sum(p, 1)
            v = tl.load(
                v_pool
                + (slot + start) * V_SLOT
                + head * V_HEAD
                + key[:, None] * V_SLOT
                + dims[None, :]
            )  # [N, D]
            result = tl.dot(p.to(v.dtype), v, result * fade[:, None], input_precision="ieee")
            best = better
    result = result / weight[:, None]
    out_offset = (query - first_query) * (HEADS * DIM) + row % GROUP * DIM
    tl.store(
        out + q_row * (HEADS * DIM) + head * (GROUP * DIM) + out_offset[:, None] + dims[None, :],
        result.to(out.dtype.element_ty),
        mask=(row < queries * GROUP)[:, None],
    )
