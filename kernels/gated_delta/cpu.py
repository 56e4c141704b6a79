"""The chunked gated delta rule: products inside chunks batched, states carried between them.

The WY form of "Gated Delta Networks" (Yang et al., 2024). Inside a chunk, with G the running sum
of log α and A the strictly lower part of β (K Kᵀ) e^(G_i-G_j), the values written are
V' = (I + A)⁻¹ β (V - e^G K S). Norms and decays are folded into the small [W, W] matrices and into
the values written; only the keys and queries that read a state are scaled themselves (e^G K).

The chunk grid restarts at every segment. Chunks are ordered by the level of their segment and
their number in it, and worked off in windows: what needs no state is one batch over a window,
then the states move on step by step, all segments of a level at once.

Products take their factors in the dtype of the inputs and accumulate in fp32; norms, decays, the
inverse, its product and the running states are fp32 always. (Rounding the inverse to bf16 makes the
same error in every row; over 64 equal keys these add up to 8 %.) fp16 is widened to fp32: a state
may leave its range.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import torch
import torch.nn.functional as F

from readoff.kernels.gated_delta.inverse import unit_inverse

CHUNK = 32
"""Tokens of a chunk. Of 64, a fifth more of the arithmetic would fall on zeros above diagonals."""

LAST = 48
"""Tokens of the last chunk of a segment at most: a short leaf is one chunk and updates no state."""

WINDOW = 16
"""Chunks prepared at a time: they stay in cache, and long inputs need no more memory."""


@dataclass(frozen=True)
class _Chunk:
    segment: int
    level: int
    number: int
    start: int
    length: int
    last: bool


_Running = dict[int, tuple[torch.Tensor, int]]  # by segment: its last step's states, its place


class _Prepared(NamedTuple):
    """What a step needs besides states. Shapes begin with [n H, ..]: the n chunks of the step, each
    padded to W tokens, with the H value heads of one side by side. m: the products' dtype."""

    value: torch.Tensor  # [.., W, Dv] m
    key: torch.Tensor  # raw: [.., W, Dk] m
    read_key: torch.Tensor  # -k e^G / |k|: [.., W, Dk] m
    read_query: torch.Tensor  # q e^G Dk^-0.5 / |q|: [.., W, Dk] m
    attention: torch.Tensor  # tril(q kᵀ e^(G_i-G_j)), of unit keys and scaled queries: [.., W, W] m
    inverse: torch.Tensor  # (I + A)⁻¹ β: [.., W, W] fp32, as all below
    write: torch.Tensor  # e^(G_last-G) / |k|: [.., W, 1]
    decay: torch.Tensor  # e^G_last: [.., 1, 1]


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
    """See the contract in the package's docstring. Differentiable."""
    chunks = _chunks(seg_start.tolist(), seg_length.tolist(), seg_depth.tolist())
    parents, outs = parent_state.tolist(), state_out.tolist()
    empty = _pass_on(seg_length.tolist(), seg_depth.tolist(), parents, outs)
    log_alpha = -a_log.float().exp() * F.softplus(a.float() + dt_bias.float())  # [T, Hv]
    beta = b.float().sigmoid()
    running: _Running = {}
    outputs: list[torch.Tensor] = []  # [tokens of a step, Hv, Dv]
    rows: list[int] = []
    for first in range(0, len(chunks), WINDOW):
        window = chunks[first : first + WINDOW]
        widths = _widths(window)
        steps = _steps(window, widths)
        prepared = {}
        for width in set(widths.values()):
            equal = [step for step in steps if widths[step[0]] == width]
            prepared[width] = _prepare(q, k, v, log_alpha, beta, equal, width)
        for step in steps:
            state = _initial(step, states, parents, running)
            wanted = any(not c.last or outs[c.segment] >= 0 for c in step)
            out, state = _advance(next(prepared[widths[step[0]]]), state, wanted)
            outputs.append(_unpadded(out, step).to(q.dtype))
            rows += [t for c in step for t in range(c.start, c.start + c.length)]
            for i, chunk in enumerate(step if wanted else []):
                if not chunk.last:
                    running[chunk.segment] = (state, i)
                    continue
                running.pop(chunk.segment, None)
                if outs[chunk.segment] >= 0:
                    slot = state_out[chunk.segment : chunk.segment + 1]
                    states.index_copy_(0, slot, state[i : i + 1])
    for written, source in empty.items():
        states[written] = states[source]
    if not outputs:
        return torch.empty(v.shape, dtype=q.dtype, device=q.device)
    out = torch.cat(outputs)
    ordered = rows == list(range(len(rows)))
    return out if ordered else out[torch.tensor(rows, device=q.device).argsort()]


def _pass_on(
    lengths: list[int], depths: list[int], parents: list[int], outs: list[int]
) -> dict[int, int]:
    """Empty segments pass their parent's state on: {slot written: slot it is copied from}.

    Children of an empty segment are redirected, in `parents`, to the slot that is copied.
    """
    source: dict[int, int] = {}
    for s in sorted(range(len(lengths)), key=depths.__getitem__):
        parents[s] = source.get(parents[s], parents[s])
        if lengths[s] == 0 and outs[s] >= 0:
            source[outs[s]] = parents[s]
    return source


def _chunks(starts: list[int], lengths: list[int], depths: list[int]) -> list[_Chunk]:
    """The chunks of all segments in the order in which states allow them to be worked off."""
    chunks = []
    for s, (start, length, depth) in enumerate(zip(starts, lengths, depths, strict=True)):
        full = -(-max(0, length - LAST) // CHUNK)
        for number in range(full + (length > 0)):
            at, last = number * CHUNK, number == full
            n = length - at if last else CHUNK
            chunks.append(_Chunk(s, depth, number, start + at, n, last))
    return sorted(chunks, key=lambda c: (c.level, c.number, -c.length))


def _widths(window: list[_Chunk]) -> dict[_Chunk, int]:
    """The width each chunk is padded to: multiples of 16, as few different ones as is cheap."""
    widths = {c: -(-c.length // 16) * 16 for c in window}
    budget = max(CHUNK, sum(widths.values()) // 8)  # padding is cheaper than another batch
    present = sorted(set(widths.values()))
    for small, large in pairwise(present):
        moved = [c for c, width in widths.items() if width == small]
        budget -= len(moved) * (large - small)
        if budget < 0:
            break
        widths |= dict.fromkeys(moved, large)
    return widths


def _steps(window: list[_Chunk], widths: dict[_Chunk, int]) -> list[list[_Chunk]]:
    """Runs of chunks that can be worked off at once: same level, number and width."""
    steps: dict[tuple[int, int, int], list[_Chunk]] = {}
    for c in window:
        steps.setdefault((c.level, c.number, widths[c]), []).append(c)
    return list(steps.values())


def _prepare(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    log_alpha: torch.Tensor,
    beta: torch.Tensor,
    steps: list[list[_Chunk]],
    width: int,
) -> Iterator[_Prepared]:
    """What needs no state of some steps of one width: computed together, handed out by step."""
    chunks = [c for step in steps for c in step]
    length = torch.tensor([c.length for c in chunks])[:, None, None]
    padding = (torch.arange(width) >= length).to(q.device)  # [n, 1, W]
    rows = _Rows(chunks, width)
    repeat, dim = v.shape[1] // k.shape[1], q.shape[2]
    product = torch.float32 if q.dtype == torch.float16 else q.dtype
    # Casts of their own, here and below: operators on mixed dtypes take several times as long.
    keys, queries = _heads_first(k, rows, repeat, product), _heads_first(q, rows, repeat, product)
    wide_k, wide_q = keys.float(), queries.float()
    unit_k, unit_q = _inverse_norm(wide_k), _inverse_norm(wide_q) * dim**-0.5
    # Padded tokens neither decay nor write.
    g = rows.of(log_alpha).transpose(1, 2).masked_fill(padding, 0.0).flatten(0, 1)  # [n Hv, W]
    strength = rows.of(beta).transpose(1, 2).masked_fill(padding, 0.0).flatten(0, 1)
    total = g.cumsum(-1)[..., None]
    last = total[:, -1:]
    # e^(G_i - G_j) / |k_j|, garbage above the diagonal. An exponential that leaves the range of
    # normal numbers takes 3 to 30 times as long, and e^-80 is nothing beside 1.
    decay = (total - total.transpose(1, 2)).clamp_(-80.0, 0.0).exp_() * unit_k.transpose(1, 2)
    turned = keys.transpose(1, 2)
    system = torch.bmm(keys, turned).float().mul_(decay).mul_(strength[..., None] * unit_k)
    attention = torch.bmm(queries, turned).float().mul_(decay).mul_(unit_q)
    grown = total.exp()
    heads_first = (
        keys,
        (wide_k * (grown * -unit_k)).to(product),
        (wide_q * (grown * unit_q)).to(product),
        attention.tril_().to(product),
        unit_inverse(system) * strength[:, None, :],
        (last - total).exp() * unit_k,
        last.exp(),
    )
    values = rows.of(v).transpose(1, 2).to(product).split([len(step) for step in steps])
    lengths = [len(step) * v.shape[1] for step in steps]
    for value, *rest in zip(values, *(x.split(lengths) for x in heads_first), strict=True):
        yield _Prepared(value.flatten(0, 1), *rest)


def _advance(p: _Prepared, state: torch.Tensor, wanted: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """One step from `state` [n, Hv, Dk, Dv] fp32: outputs [n, Hv, W, Dv] m and, if `wanted` (nobody
    continues a leaf), the states after it; else the old ones."""
    product = p.value.dtype
    # Siblings start from one state: round it once, not once for each of them.
    shared = state.stride(0) == 0
    read = state[:1].to(product).expand_as(state) if shared else state.to(product)
    read = read.flatten(0, 1)
    # Added in fp32: a sum rounded to the dtype of values would lose some of them.
    surprise = torch.bmm(p.read_key, read).float().add_(p.value.float())
    values = torch.bmm(p.inverse, surprise)
    out = torch.bmm(p.read_query, read).baddbmm_(p.attention, values.to(product))
    out = out.view(len(state), -1, *out.shape[1:])
    if not wanted:
        return out, state
    keys, written = p.key.transpose(1, 2), (p.write * values).to(product)
    if product == torch.float32:
        after = (p.decay * state.flatten(0, 1)).baddbmm_(keys, written)
    else:  # the product is rounded; the sum is not
        after = torch.bmm(keys, written).float().addcmul_(p.decay, state.flatten(0, 1))
    return out, after.view(state.shape)


def _initial(
    step: list[_Chunk], states: torch.Tensor, parents: list[int], running: _Running
) -> torch.Tensor:
    """The states [n, Hv, Dk, Dv] that a step starts from; one, expanded, where all are the same."""
    if step[0].number > 0:
        held = [running[c.segment] for c in step]
        if all(x is held[0][0] and i == place for place, (x, i) in enumerate(held)):
            return held[0][0][: len(step)]
        return torch.stack([x[i] for x, i in held])
    slots = [parents[c.segment] for c in step]
    if len(set(slots)) == 1:
        state = states[slots[0] : slots[0] + 1]
        # A gradient would read the slot after later segments have been written.
        state = state.clone() if torch.is_grad_enabled() else state
        return state.expand(len(slots), *states.shape[1:])
    return states.index_select(0, torch.tensor(slots, device=states.device))


def _unpadded(out: torch.Tensor, step: list[_Chunk]) -> torch.Tensor:
    """[n, Hv, W, Dv] -> the real tokens, [sum of lengths, Hv, Dv]."""
    out = out.transpose(1, 2)
    if all(c.length == out.shape[1] for c in step):
        return out.flatten(0, 1)
    return torch.cat([out[i, : c.length] for i, c in enumerate(step)])


class _Rows:
    """Picks the rows of some chunks, each padded to one width, as few long slices."""

    def __init__(self, chunks: list[_Chunk], width: int) -> None:
        self._shape = (len(chunks), width)
        self._slices: list[tuple[int, int, int]] = []  # start, stop, rows of padding after it
        for c in chunks:
            piece = (c.start, c.start + c.length, width - c.length)
            if self._slices and self._slices[-1][1:] == (c.start, 0):
                piece = (self._slices.pop()[0], *piece[1:])
            self._slices.append(piece)

    def of(self, x: torch.Tensor) -> torch.Tensor:
        """[T, ...] -> [n, W, ...]; a view where that is possible. Padding repeats the first row."""
        pieces = []
        for start, stop, padding in self._slices:
            pieces.append(x[start:stop])
            if padding:
                pieces.append(x[:1].expand(padding, *x.shape[1:]))
        picked = pieces[0] if len(pieces) == 1 else torch.cat(pieces)
        return picked.view(*self._shape, *x.shape[1:])


def _heads_first(x: torch.Tensor, rows: _Rows, repeat: int, dtype: torch.dtype) -> torch.Tensor:
    """[T, H, D] -> [n H repeat, W, D]."""
    x = rows.of(x).transpose(1, 2).to(dtype).flatten(0, 1).contiguous()
    return x.repeat_interleave(repeat, dim=0) if repeat > 1 else x


def _inverse_norm(x: torch.Tensor) -> torch.Tensor:
    """1 / sqrt(|x|² + 1e-6) over the last dimension, which becomes 1."""
    return torch.rsqrt(torch.linalg.vector_norm(x, dim=-1, keepdim=True).square() + 1e-6)
