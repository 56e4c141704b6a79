"""The chunked gated delta rule: products inside chunks batched, states carried between them.

The WY form of "Gated Delta Networks" (Yang et al., 2024). Inside a chunk, with G the running sum
of log α and A the strictly lower part of β (K Kᵀ) e^(G_i-G_j), the values written are
V' = (I + A)⁻¹ β (V - e^G K S). The inverse comes from forward substitution: powers of A explode on
repeated keys. Keys and queries stay as they are in memory; their L2-norms are folded into the
small [64, 64] matrices.

The chunk grid restarts at every segment. Chunks are ordered by the level of their segment and
their number in it, and worked off in windows: what needs no state is one batch over a window,
then the states move on step by step, all segments of a level at once.

Products take their factors in the dtype of the inputs and accumulate in fp32; norms, decays, the
inverse, its product and the running states are fp32 always. (Rounding the inverse to bf16 makes the
same error in every row; over 64 equal keys these add up to 8 %.) fp16 is widened to fp32: a state
may leave its range.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import torch
import torch.nn.functional as F

CHUNK = 64
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


@dataclass(frozen=True)
class _Prepared:
    """One width of one window: n chunks, H value heads, padded width W. m: the products' dtype."""

    key_query: torch.Tensor  # [k; q] raw: [n, H, 2 W, Dk] m
    value: torch.Tensor  # [n, H, W, Dv] m
    attention: torch.Tensor  # tril(q kᵀ e^(G_i-G_j)), scaled: [n, H, W, W] m
    inverse: torch.Tensor  # (I + A)^-1: [n, H, W, W] fp32, as all below
    beta: torch.Tensor  # [n, H, W, 1]
    read_key: torch.Tensor  # e^G / |k|: [n, H, W, 1]
    read_query: torch.Tensor  # e^G Dk^-0.5 / |q|: [n, H, W, 1]
    write: torch.Tensor  # e^(G_last-G) / |k|: [n, H, W, 1]
    decay: torch.Tensor  # e^G_last: [n, H, 1, 1]


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
) -> torch.Tensor:
    """See the contract in the package's docstring. Differentiable."""
    chunks = _chunks(seg_start.tolist(), seg_length.tolist(), seg_depth.tolist())
    parents, outs = parent_state.tolist(), state_out.tolist()
    empty = _pass_on(seg_length.tolist(), seg_depth.tolist(), parents, outs)
    log_alpha = -a_log.float().exp() * F.softplus(a.float() + dt_bias.float())  # [T, Hv]
    beta = b.float().sigmoid()
    running: dict[int, torch.Tensor] = {}
    outputs: list[torch.Tensor] = []  # [tokens of a step, Hv, Dv]
    rows: list[int] = []
    for first in range(0, len(chunks), WINDOW):
        window = chunks[first : first + WINDOW]
        widths = _widths(window)
        prepared = {
            width: _prepare(
                q, k, v, log_alpha, beta, [c for c in window if widths[c] == width], width
            )
            for width in set(widths.values())
        }
        taken = dict.fromkeys(prepared, 0)
        for step in _steps(window, widths):
            width = widths[step[0]]
            at = slice(taken[width], taken[width] + len(step))
            taken[width] = at.stop
            state = _initial(step, states, parents, running)
            # Nobody continues a leaf: its final state is never computed.
            wanted = any(not c.last or outs[c.segment] >= 0 for c in step)
            out, state = _advance(prepared[width], at, state, wanted)
            outputs.append(_unpadded(out, step).to(q.dtype))
            rows += [t for c in step for t in range(c.start, c.start + c.length)]
            for i, chunk in enumerate(step if wanted else []):
                if not chunk.last:
                    running[chunk.segment] = state[i]
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
    order = torch.tensor(rows, device=q.device).argsort()
    return out if rows == list(range(len(rows))) else out[order]


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
        for number, at in enumerate(range(0, length, CHUNK)):
            n = min(CHUNK, length - at)
            chunks.append(_Chunk(s, depth, number, start + at, n, at + n == length))
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
    chunks: list[_Chunk],
    width: int,
) -> _Prepared:
    """Everything of some chunks of one width that needs no state."""
    length = torch.tensor([c.length for c in chunks])[:, None]
    padding = (torch.arange(width) >= length)[:, None].to(q.device)  # [n, 1, W]
    rows = _Rows(chunks, width)
    repeat, dim = v.shape[1] // k.shape[1], q.shape[2]
    product = torch.float32 if q.dtype == torch.float16 else q.dtype

    keys, queries = _chunked(k, rows, repeat, product), _chunked(q, rows, repeat, product)
    unit_k, unit_q = _inverse_norm(k, rows, repeat), _inverse_norm(q, rows, repeat) * dim**-0.5
    # Padded tokens neither decay nor write.
    g = rows.of(log_alpha).transpose(1, 2).masked_fill(padding, 0.0)  # [n, Hv, W]
    strength = rows.of(beta).transpose(1, 2).masked_fill(padding, 0.0)[..., None]
    total = g.cumsum(-1)
    # e^(G_i - G_j) / |k_j|, garbage above the diagonal. An exponential that leaves the range of
    # normal numbers takes 3 to 30 times as long, and e^-80 is nothing beside 1.
    decay = (total[..., :, None] - total[..., None, :]).clamp(-80.0, 0.0).exp()
    decay = decay * unit_k.transpose(-1, -2)
    key_query = torch.cat([keys, queries], dim=-2)
    key_key, query_key = torch.matmul(key_query, keys.transpose(-1, -2)).split(width, dim=-2)
    system = key_key * (decay * (strength * unit_k))  # only its strictly lower part is read
    identity = torch.eye(width, device=q.device).expand_as(system)
    inverse = torch.linalg.solve_triangular(
        system.float(), identity, upper=False, unitriangular=True
    )
    grown = total.exp()[..., None]
    return _Prepared(
        key_query=key_query,
        value=_chunked(v, rows, 1, product),
        attention=(query_key * (decay * unit_q)).to(product).tril(),
        inverse=inverse,
        beta=strength,
        read_key=grown * unit_k,
        read_query=grown * unit_q,
        write=(total[..., -1:] - total).exp()[..., None] * unit_k,
        decay=total[..., -1, None, None].exp(),
    )


def _advance(
    p: _Prepared, at: slice, state: torch.Tensor, wanted: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    """One step from `state` [n, Hv, Dk, Dv] fp32: outputs [n, Hv, W, Dv] fp32 and, if `wanted`, the
    states after it (else the old ones)."""
    product, width = p.value.dtype, p.value.shape[-2]
    key_query = p.key_query[at]
    # Siblings start from one state: round it once, not once for each of them.
    shared = state.stride(0) == 0
    read = state[:1].to(product).expand_as(state) if shared else state.to(product)
    known, carried = torch.matmul(key_query, read).split(width, dim=-2)
    surprise = p.beta[at] * torch.addcmul(p.value[at].float(), p.read_key[at], known, value=-1.0)
    values = torch.matmul(p.inverse[at], surprise)
    attended = torch.matmul(p.attention[at], values.to(product))
    out = torch.addcmul(attended.float(), p.read_query[at], carried.float())
    if not wanted:
        return out, state
    keys = key_query[..., :width, :].transpose(-1, -2)
    written = torch.matmul(keys, (p.write[at] * values).to(product))
    return out, torch.addcmul(written.float(), p.decay[at], state)


def _initial(
    step: list[_Chunk], states: torch.Tensor, parents: list[int], running: dict[int, torch.Tensor]
) -> torch.Tensor:
    """The states [n, Hv, Dk, Dv] that a step starts from; one, expanded, where all are the same."""
    if step[0].number > 0:
        return torch.stack([running[c.segment] for c in step])
    slots = [parents[c.segment] for c in step]
    if len(set(slots)) == 1:
        # A copy: the slot may be read by a gradient after later segments have been written.
        return states[slots[0] : slots[0] + 1].clone().expand(len(slots), *states.shape[1:])
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


def _chunked(x: torch.Tensor, rows: _Rows, repeat: int, dtype: torch.dtype) -> torch.Tensor:
    """[T, H, D] -> [n, H · repeat, W, D]."""
    x = rows.of(x).to(dtype).transpose(1, 2)
    return x.repeat_interleave(repeat, dim=1) if repeat > 1 else x.contiguous()


def _inverse_norm(x: torch.Tensor, rows: _Rows, repeat: int) -> torch.Tensor:
    """1 / sqrt(|x|² + 1e-6) by token and head in fp32: [n, H · repeat, W, 1]."""
    x = rows.of(x)
    square = torch.linalg.vector_norm(x, dim=-1, dtype=torch.float32).square()
    unit = torch.rsqrt(square + 1e-6).transpose(1, 2)[..., None]
    return unit.repeat_interleave(repeat, dim=1) if repeat > 1 else unit
