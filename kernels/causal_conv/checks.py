"""What `causal_conv` refuses, at its door."""

from __future__ import annotations

from itertools import pairwise

import torch

from readoff.kernels.dispatch import KernelInputError

FLOATS = (torch.float32, torch.bfloat16, torch.float16)


def check(
    x: torch.Tensor,
    weight: torch.Tensor,
    tails: torch.Tensor,
    seg_start: torch.Tensor,
    seg_length: torch.Tensor,
    seg_depth: torch.Tensor,
    parent_state: torch.Tensor,
    state_out: torch.Tensor,
    seg_parent: torch.Tensor | None = None,
) -> None:
    """Shapes, dtypes, layouts and devices; looks at no value on the device.

    Raises:
        KernelInputError: names the argument, what it is and what it must be.
    """
    if x.dim() != 2 or x.stride(1) != 1:
        raise _error(
            f"x has shape {list(x.shape)}, strides {x.stride()}; it must be [T, C] in dense rows"
        )
    channels = x.shape[1]
    if weight.dim() != 2 or weight.shape[0] != channels or weight.shape[1] < 2:
        raise _error(
            f"weight has shape {list(weight.shape)}; it must be [{channels}, taps], taps >= 2"
        )
    if tails.dim() != 3 or tails.shape[1:] != (weight.shape[1] - 1, channels):
        raise _error(
            f"tails has shape {list(tails.shape)}; "
            f"it must be [slots, {weight.shape[1] - 1}, {channels}]"
        )
    for name, tensor in (("weight", weight), ("tails", tails)):
        if not tensor.is_contiguous():
            raise _error(f"{name} has strides {tensor.stride()}; it must be contiguous")
        if tensor.device != x.device:
            raise _error(f"{name} is on {tensor.device}, x on {x.device}")
    for name, tensor in (("x", x), ("weight", weight), ("tails", tails)):
        if tensor.dtype not in FLOATS:
            raise _error(f"{name} is {tensor.dtype}; it must be float32, bfloat16 or float16")
    if tails.dtype != x.dtype:
        raise _error(f"tails is {tails.dtype}, x {x.dtype}; they must be the same")
    shape = seg_length.shape
    if len(shape) != 1:
        raise _error(f"seg_length has shape {list(shape)}; it must be [S]")
    for name, index in (
        ("seg_start", seg_start),
        ("seg_length", seg_length),
        ("seg_depth", seg_depth),
        ("parent_state", parent_state),
        ("state_out", state_out),
        ("seg_parent", seg_length if seg_parent is None else seg_parent),
    ):
        if index.shape != shape:
            raise _error(f"{name} has shape {list(index.shape)}; it must be {list(shape)}")
        if index.dtype != torch.int64 or not index.is_contiguous():
            raise _error(
                f"{name} is {index.dtype}, strides {index.stride()}; it must be dense int64"
            )
        if index.device != x.device:
            raise _error(f"{name} is on {index.device}, x on {x.device}")


def check_values(
    x: torch.Tensor,
    weight: torch.Tensor,
    tails: torch.Tensor,
    seg_start: torch.Tensor,
    seg_length: torch.Tensor,
    seg_depth: torch.Tensor,
    parent_state: torch.Tensor,
    state_out: torch.Tensor,
    seg_parent: torch.Tensor | None = None,
) -> None:
    """What the index tensors hold; waits for the device.

    Raises:
        KernelInputError: names the argument and the segment.
    """
    tokens, slots = x.shape[0], tails.shape[0]
    starts, lengths = seg_start.tolist(), seg_length.tolist()
    depths, states, outs = seg_depth.tolist(), parent_state.tolist(), state_out.tolist()
    writer: dict[int, int] = {}
    for s, (start, length, state, slot) in enumerate(
        zip(starts, lengths, states, outs, strict=True)
    ):
        if length < 0 or (length and not 0 <= start <= tokens - length):
            raise _error(f"segment {s} holds rows {start} .. {start + length} of {tokens}")
        if not 0 <= state < slots:
            raise _error(f"parent_state[{s}] is {state}; there are slots 0 .. {slots - 1}")
        if slot != -1 and not 0 < slot < slots:
            raise _error(f"state_out[{s}] is {slot}; it must be -1 or a slot from 1 to {slots - 1}")
        if slot in writer:
            raise _error(f"state_out: segments {writer[slot]} and {s} both write slot {slot}")
        if slot > 0:
            writer[slot] = s
    held = sorted((starts[s], length, s) for s, length in enumerate(lengths) if length)
    for (start, length, s), (later, _, other) in pairwise(held):
        if start + length > later:
            raise _error(f"seg_start: segments {s} and {other} overlap in row {later}")
    wrote = [writer.get(state, -1) for state in states]
    parents = wrote if seg_parent is None else seg_parent.tolist()
    for s, parent in enumerate(parents):
        if not lengths[s] and outs[s] < 0:
            continue
        if parent != wrote[s]:
            raise _error(
                f"seg_parent[{s}] is {parent}, but its parent_state {states[s]} "
                f"is written by segment {wrote[s]} (-1: by none of this call)"
            )
        if parent >= 0 and depths[parent] >= depths[s]:
            raise _error(
                f"seg_depth: segment {s} has depth {depths[s]}, its parent {parent} "
                f"has {depths[parent]}; a parent's is smaller"
            )


def _error(message: str) -> KernelInputError:
    return KernelInputError(f"causal_conv: {message}")
