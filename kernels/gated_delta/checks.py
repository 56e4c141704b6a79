"""What `gated_delta` refuses, at its door: on shapes and layouts always, on values on request."""

from __future__ import annotations

from itertools import pairwise

import torch

from readoff.kernels.dispatch import KernelInputError

_FLOATS = (torch.float32, torch.bfloat16, torch.float16)


def check(
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
) -> None:
    """Shapes, dtypes, layouts and devices; looks at no value and waits for nothing."""
    shape, device, dtype = q.shape, q.device, q.dtype
    if len(shape) != 3 or dtype not in _FLOATS:
        raise _wrong("q", q, "must be [tokens, key heads, elements] in fp32, bf16 or fp16")
    if k.shape != shape or k.dtype is not dtype or k.device != device:
        raise _wrong("k", k, f"must be as q is: {dtype} {list(shape)} on {device}")
    tokens, key_heads, key_dim = shape
    if v.dim() != 3 or v.dtype is not dtype or v.device != device:
        raise _wrong(
            "v", v, f"must be [tokens, value heads, elements], {dtype} on {device} as q is"
        )
    rows, heads, value_dim = v.shape
    if rows != tokens or key_heads == 0 or heads == 0 or heads % key_heads:
        raise _wrong("v", v, f"must have {tokens} tokens and a multiple of {key_heads} heads")
    for name, x in (("q", q), ("k", k), ("v", v), ("a", a), ("b", b)):
        if x.stride()[-1:] != (1,) and x.numel():
            raise _wrong(name, x, "must have a contiguous last dimension")
    per_head, per_token = (heads,), (tokens, heads)
    for name, x in (("a", a), ("b", b)):
        if x.shape != per_token or x.dtype not in _FLOATS or x.device != device:
            raise _wrong(name, x, f"must be [{tokens}, {heads}] floats on {device}")
    for name, x in (("a_log", a_log), ("dt_bias", dt_bias)):
        floats = x.dtype in _FLOATS and x.is_contiguous()
        if x.shape != per_head or not floats or x.device != device:
            raise _wrong(name, x, f"must be [{heads}] contiguous floats on {device}")
    if states.dim() != 4 or states.shape[1:] != (heads, key_dim, value_dim):
        raise _wrong("states", states, f"must be [slots, {heads}, {key_dim}, {value_dim}]")
    if states.dtype is not torch.float32 or not states.is_contiguous() or states.device != device:
        raise _wrong("states", states, f"must be fp32 and contiguous on {device}")
    segments = seg_start.shape
    if len(segments) != 1:
        raise _wrong("seg_start", seg_start, "must be [segments]")
    for name, index in (
        ("seg_start", seg_start),
        ("seg_length", seg_length),
        ("seg_depth", seg_depth),
        ("parent_state", parent_state),
        ("state_out", state_out),
        ("seg_wave", seg_wave),
    ):
        if index is None:
            continue
        whole = index.dtype is torch.int64 and index.is_contiguous()
        if index.shape != segments or not whole or index.device != device:
            wanted = f"must be {list(segments)} contiguous int64, one a segment, on {device}"
            raise _wrong(name, index, wanted)
    if (waves is None) != (seg_wave is None) or (waves is not None and waves < 0):
        raise KernelInputError(
            f"gated_delta: waves is {waves} and seg_wave {'not ' * (seg_wave is None)}given; "
            "give both (the number of waves isn't negative), or none"
        )


def check_values(
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
) -> None:
    """Segments inside the rows and apart, slots in range, an order in which states can be made."""
    tokens, slots = len(q), len(states)
    starts, lengths, depths = seg_start.tolist(), seg_length.tolist(), seg_depth.tolist()
    parents, outs = parent_state.tolist(), state_out.tolist()
    for s, (start, length) in enumerate(zip(starts, lengths, strict=True)):
        if length < 0 or (length > 0 and not 0 <= start <= tokens - length):
            raise _segment(s, f"has {length} rows from {start} on; there are {tokens} rows")
        if not 0 <= parents[s] < slots:
            raise _segment(s, f"starts from slot {parents[s]} of {slots}")
        if not (outs[s] == -1 or 0 < outs[s] < slots):
            raise _segment(
                s, f"writes slot {outs[s]}; the slots are 1 to {slots - 1}, and -1 writes none"
            )
        if depths[s] < 0:
            raise _segment(s, f"has the depth {depths[s]}; depths count from 0")
    used = [s for s, length in enumerate(lengths) if length]
    spans = sorted((starts[s], starts[s] + lengths[s], s) for s in used)
    for (_, end, s), (start, _, other) in pairwise(spans):
        if start < end:
            raise _segment(other, f"shares row {start} with segment {s}")
    if slots and bool((states[0] != 0).any()):
        raise KernelInputError("gated_delta: slot 0 of states must be all zeros")
    _check_order("depth", depths, depths, parents, outs, walked=False)
    if seg_wave is not None and waves is not None:
        turns = seg_wave.tolist()
        for s, turn in enumerate(turns):
            if not 0 <= turn < waves:
                raise _segment(s, f"has the wave {turn} of {waves}")
        _check_order("wave", turns, depths, parents, outs, walked=True)


def _check_order(
    what: str,
    turns: list[int],
    depths: list[int],
    parents: list[int],
    outs: list[int],
    walked: bool,
) -> None:
    """No slot is written twice, and none in the turn in which another segment reads it, unless that
    one is walked on to; a writer of smaller depth comes in an earlier turn."""
    writers: dict[int, int] = {}
    for s, out in enumerate(outs):
        if out >= 0 and out in writers:
            raise _segment(s, f"writes slot {out}, which segment {writers[out]} writes too")
        if out >= 0:
            writers[out] = s
    for s, slot in enumerate(parents):
        writer = writers.get(slot, s)
        if writer == s or (walked and writer == s - 1 and turns[writer] == turns[s]):
            continue
        before = depths[writer] < depths[s]
        if turns[writer] == turns[s] or before != (turns[writer] < turns[s]):
            raise _segment(
                s,
                f"of {what} {turns[s]} starts from slot {slot}, which segment {writer} of {what} "
                f"{turns[writer]} writes: parents come first",
            )


def _wrong(name: str, found: torch.Tensor, wanted: str) -> KernelInputError:
    return KernelInputError(
        f"gated_delta: {name} is {found.dtype} {list(found.shape)} with strides "
        f"{list(found.stride())} on {found.device}; it {wanted}"
    )


def _segment(s: int, message: str) -> KernelInputError:
    return KernelInputError(f"gated_delta: segment {s} {message}")
