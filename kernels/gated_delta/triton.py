"""The gated delta rule in Triton: prepare, states, outputs.

Chunks of 64 tokens, the grid restarting at every segment. The products take their factors in the
dtype of the inputs; fp16 is widened to TF32, which has its mantissa and the range of fp32, since a
state may leave the range of fp16. The inverse inside a chunk and its products are fp32 always.

A turn works off all segments whose parents are done. A segment that lies directly behind its
parent shares the parent's turn where `seg_wave` says so: one program walks from one to the other
with the state in registers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from readoff.kernels.dispatch import KernelInputError
from readoff.kernels.gated_delta.output import output
from readoff.kernels.gated_delta.prepare import CHUNK, prepare
from readoff.kernels.gated_delta.state import advance
from readoff.kernels.specimens import Specimen

_CHUNK: int = CHUNK.value
_BLOCK_S = 128  # segments looked at a time
_INDICES = ("seg_start", "seg_length", "seg_turn", "parent_state", "state_out")
_FLOATS = ("states", "total_out", "total_in", "unit_out", "unit_in")
_BETWEEN = ("w_out", "w_in", "u_out", "values_in", "values_inout", "chunk_states")
_POINTERS = {
    **dict.fromkeys(_INDICES, "*i64"),
    **dict.fromkeys(_FLOATS, "*fp32"),
    **dict.fromkeys(("chunk_rows", "first_chunk"), "*i32"),
}
_TYPES = {torch.bfloat16: "bf16", torch.float16: "fp16", torch.float32: "fp32"}


@dataclass(frozen=True)
class _Plan:
    """Everything that is fixed when the kernels are compiled, from dtype, shapes and strides.

    `product`: dtype of the factors of products, and of what lies between the passes.
    """

    product: torch.dtype
    prepare: dict[str, Any]
    advance: dict[str, Any]
    output: dict[str, Any]
    warps: int


def _plan(
    dtype: torch.dtype,
    heads: tuple[int, int],
    dims: tuple[int, int],
    strides: tuple[tuple[int, ...], ...],
) -> _Plan:
    """`heads`: of keys, of values; `dims`: of keys, of values; `strides`: of q, k, v, a and b.

    A program of the second pass holds 32 columns of a state (with more, registers spill), one of
    the third 64 columns of the output (fp32: 16, for the same reason). In fp32, and in fp16, whose
    factors are widened, an element takes twice the bytes and up to three instructions: smaller
    tiles, more warps, no prefetch. Products of fp32 are made of three TF32 products, right to about
    2^-21: as scalar instructions they spill on every target.
    """
    narrow = dtype == torch.bfloat16
    exact = "tf32x3"
    precision = exact if dtype == torch.float32 else "tf32"
    q, k, v, a, b = strides
    queries, keys = ({f"{x}_ROW": s[0], f"{x}_HEAD": s[1]} for x, s in (("Q", q), ("K", k)))
    sizes: dict[str, Any] = {"HEADS": heads[1], "REPEAT": heads[1] // heads[0]}
    sizes |= {"DK": dims[0], "DV": dims[1], **keys}
    prepare = {**sizes, "V_ROW": v[0], "V_HEAD": v[1], "A_ROW": a[0], "B_ROW": b[0]}
    block = 128 if narrow else 32
    own = min(32 if narrow else 16, *dims)
    prepare |= {"BLOCK_S": _BLOCK_S, "BLOCK_D": own, "PRECISION": precision, "EXACT": exact}
    block_d, block_t = min(block, dims[0]), min(block, _CHUNK)
    advance = {**sizes, "BLOCK_V": min(32, dims[1]), "PRECISION": precision}
    advance |= {"BLOCK_D": block_d, "BLOCK_T": block_t, "STAGES": 2 if narrow else 1}
    output = {**sizes, **queries, "BLOCK_D": block_d}
    block_v = 16 if dtype == torch.float32 else 64 if narrow else 32
    output |= {"BLOCK_V": min(block_v, dims[1]), "PRECISION": precision}
    product = torch.bfloat16 if narrow else torch.float32
    return _Plan(product, prepare, advance, output, 4 if narrow else 8)


def gated_delta(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    a: torch.Tensor,
    b: torch.Tensor,
    a_log: torch.Tensor,
    dt_bias: torch.Tensor,
    states: torch.Tensor,
    seg_start: torch.Tensor,
    seg_length: torch.Tensor,
    seg_depth: torch.Tensor,
    parent_state: torch.Tensor,
    state_out: torch.Tensor,
    seg_wave: torch.Tensor | None = None,
    waves: int | None = None,
) -> torch.Tensor:
    """See the contract in the package's docstring. Head sizes: powers of two from 16 to 128.

    2 + waves launches and no wait for the device; without `seg_wave` it waits once, for the
    deepest level.
    """
    tokens, heads, value_dim = v.shape
    key_heads, key_dim = k.shape[1:]
    _check_sizes(key_dim, value_dim)
    segments = len(seg_length)
    out = torch.empty(v.shape, dtype=q.dtype, device=q.device)
    if segments == 0:
        return out
    strides = (q.stride(), k.stride(), v.stride(), a.stride(), b.stride())
    plan = _plan(q.dtype, (key_heads, heads), (key_dim, value_dim), strides)
    # No segment needs more than a chunk beyond its whole ones.
    chunks = max(1, min(tokens, (tokens + (_CHUNK - 1) * segments) // _CHUNK))

    def scratch(*shape: int, dtype: torch.dtype = plan.product) -> torch.Tensor:
        return torch.empty(shape, dtype=dtype, device=q.device)

    chunk_rows = scratch(chunks, 2, dtype=torch.int32)  # first row, rows
    first_chunk = scratch(segments, dtype=torch.int32)
    total = scratch(chunks, heads, _CHUNK, dtype=torch.float32)  # G
    unit = scratch(chunks, heads, _CHUNK, dtype=torch.float32)  # 1 / |k|
    w = scratch(chunks, heads, _CHUNK, key_dim)
    values = scratch(chunks, heads, _CHUNK, value_dim)  # u, then V'
    chunk_states = scratch(chunks, heads, key_dim, value_dim)

    prepare[(chunks, heads)](
        *(k, v, a, b, a_log, dt_bias, seg_start, seg_length),
        *(chunk_rows, first_chunk, total, unit, w, values, segments),
        **plan.prepare,
        num_warps=plan.warps,
    )
    walk = seg_wave is not None
    turn = seg_depth if seg_wave is None else seg_wave
    turns = waves if walk and waves is not None else int(turn.max()) + 1
    for number in range(turns):
        advance[(segments, heads, value_dim // plan.advance["BLOCK_V"])](
            *(k, states, seg_length, turn, parent_state, state_out),
            *(chunk_rows, first_chunk, total, unit, w, values, chunk_states, segments, number),
            **plan.advance,
            WALK=walk,
            num_warps=plan.warps,
        )
    output[(chunks, heads, value_dim // plan.output["BLOCK_V"])](
        *(q, k, chunk_rows, total, unit, values, chunk_states, out, key_dim**-0.5),
        **plan.output,
        num_warps=plan.warps,
    )
    return out


def specimens() -> list[Specimen]:
    """The kernels as Qwen3.5-0.8B (16 value heads) and -4B (32) launch them."""
    made = []
    for dtype, name in _TYPES.items():
        for heads in (16, 32):
            made += _specimens(dtype, name, heads)
    return made


def _specimens(dtype: torch.dtype, name: str, heads: int) -> list[Specimen]:
    key_heads, dim = 16, 128
    mixed = (2 * key_heads + heads) * dim  # q, k, v
    projected = mixed + heads * dim + 2 * heads  # q, k, v, z, b, a
    strides = (*[(mixed, dim, 1)] * 3, *[(projected, 1)] * 2)
    plan = _plan(dtype, (key_heads, heads), (dim, dim), strides)
    types = {**_POINTERS, **dict.fromkeys(("segments", "turn"), "i32"), "scale": "fp32"}
    types |= dict.fromkeys(("q", "k", "v", "a", "b", "a_log", "dt_bias", "out"), f"*{name}")
    product = f"*{_TYPES[plan.product]}"
    types |= dict.fromkeys(_BETWEEN, product)

    def specimen(kernel: Any, constants: dict[str, Any]) -> Specimen:
        signature = {n: types[n] for n in kernel.arg_names if n not in constants}
        walk = ", walking" if constants.get("WALK") else ""
        title = f"gated_delta.{kernel.__name__}[{name}, {heads} heads{walk}]"
        return Specimen(title, kernel, signature, constants, num_warps=plan.warps)

    return [
        specimen(prepare, plan.prepare),
        specimen(advance, {**plan.advance, "WALK": True}),
        specimen(advance, {**plan.advance, "WALK": False}),
        specimen(output, plan.output),
    ]


def _check_sizes(key_dim: int, value_dim: int) -> None:
    for name, size in (("key", key_dim), ("value", value_dim)):
        if size not in (16, 32, 64, 128):
            raise KernelInputError(
                f"gated_delta in Triton: {name} heads have {size} elements; "
                "it takes 16, 32, 64 or 128"
            )
