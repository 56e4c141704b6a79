"""Operands of every operator at the shapes of Qwen3.5-0.8B, with what a call needs at least.

Bytes are those that a call can't avoid: each operand read once, each result written once. FLOPs
count a multiplication and an addition as two; norms and gates are counted by the element.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from readoff.kernels.unpack import BLOCK, HEADER

HIDDEN, MLP, VOCAB = 1024, 3584, 248_320
QUERY_HEADS, KV_HEADS, HEAD_DIM, ROTARY = 8, 2, 256, 64
GDN_HEADS, GDN_DIM, TAPS = 16, 128, 4
CHUNK = 64
EPS = 1e-6


@dataclass(frozen=True)
class Shape:
    """`state` tokens shared by `questions` of `question` tokens each; a small one for smoke tests.

    `scale` divides the model's widths.
    """

    state: int = 400
    questions: int = 8
    question: int = 40
    scale: int = 1

    @property
    def lengths(self) -> list[int]:
        """Tokens of each segment: the state, then the questions."""
        return [self.state] + [self.question] * self.questions

    @property
    def tokens(self) -> int:
        """Tokens of one packed pass."""
        return sum(self.lengths)

    @property
    def pairs(self) -> int:
        """(query, key) pairs that attention looks at."""
        own = sum(n * (n + 1) // 2 for n in self.lengths)
        return own + self.questions * self.question * self.state


@dataclass(frozen=True)
class Case:
    """The arguments of one call, and what it needs."""

    arguments: tuple[Any, ...]
    bytes: int
    flops: int


Make = Callable[[Shape, torch.dtype], Case]


def _random(*shape: int, dtype: torch.dtype) -> torch.Tensor:
    return torch.randn(*shape).to(dtype)


def _bytes(*tensors: torch.Tensor) -> int:
    return sum(t.numel() * t.element_size() for t in tensors)


def linear(shape: Shape, dtype: torch.dtype) -> Case:
    """The gate and up projections of the MLP, the largest product of a layer."""
    k, n, t = HIDDEN // shape.scale, 2 * MLP // shape.scale, shape.tokens
    x, weight = _random(t, k, dtype=dtype), _random(n, k, dtype=dtype)
    out = t * n * x.element_size()
    return Case((x, weight, None), _bytes(x, weight) + out, 2 * t * n * k)


def rms_norm(shape: Shape, dtype: torch.dtype) -> Case:
    """Over the residual stream."""
    x, weight = _random(shape.tokens, HIDDEN, dtype=dtype), _random(HIDDEN, dtype=dtype)
    return Case((x, weight, EPS, False), 2 * _bytes(x) + _bytes(weight), 4 * x.numel())


def add_rms_norm(shape: Shape, dtype: torch.dtype) -> Case:
    """The same with the residual added first."""
    x, weight = _random(shape.tokens, HIDDEN, dtype=dtype), _random(HIDDEN, dtype=dtype)
    made = (x, x.clone(), weight, EPS, False)
    return Case(made, 4 * _bytes(x) + _bytes(weight), 5 * x.numel())


def swiglu(shape: Shape, dtype: torch.dtype) -> Case:
    """The MLP's gate."""
    size = MLP // shape.scale
    x = _random(shape.tokens, 2 * size, dtype=dtype)
    return Case((x, size), _bytes(x) * 3 // 2, 5 * shape.tokens * size)


def gated_rms_norm(shape: Shape, dtype: torch.dtype) -> Case:
    """Behind the delta rule."""
    x = _random(shape.tokens, GDN_HEADS, GDN_DIM, dtype=dtype)
    made = (x, x.clone(), _random(GDN_DIM, dtype=dtype), EPS)
    return Case(made, 3 * _bytes(x), 9 * x.numel())


def sigmoid_gate(shape: Shape, dtype: torch.dtype) -> Case:
    """Behind attention."""
    x = _random(shape.tokens, QUERY_HEADS * HEAD_DIM // shape.scale, dtype=dtype)
    return Case((x, x.clone()), 3 * _bytes(x), 5 * x.numel())


def norm_rope_write(shape: Shape, dtype: torch.dtype) -> Case:
    """Norms of q and k, rotation, and the write into the pools."""
    t = shape.tokens
    q = _random(t, QUERY_HEADS, HEAD_DIM, dtype=dtype)
    k, v = (_random(t, KV_HEADS, HEAD_DIM, dtype=dtype) for _ in range(2))
    pools = [torch.zeros(t, KV_HEADS, HEAD_DIM, dtype=dtype) for _ in range(2)]
    weight = _random(HEAD_DIM, dtype=dtype)
    angle = torch.randn(t, ROTARY // 2)
    made = (q, k, v, weight, weight, EPS, True, angle.cos(), angle.sin(), None)
    flops = 4 * (q.numel() + k.numel()) + 3 * t * (QUERY_HEADS + KV_HEADS) * ROTARY
    return Case((*made, *pools, torch.arange(t)), 2 * _bytes(q, k, v) + 2 * _bytes(angle), flops)


def _segments(shape: Shape) -> tuple[torch.Tensor, ...]:
    """seg_start, seg_length, seg_depth, parent_state, state_out: a state and its questions."""
    lengths = torch.tensor(shape.lengths)
    below = torch.tensor([0] + [1] * shape.questions)
    outs = torch.tensor([1] + [-1] * shape.questions)
    return lengths.cumsum(0) - lengths, lengths, below, below, outs


def causal_conv(shape: Shape, dtype: torch.dtype) -> Case:
    """Over q, k and v of the delta rule."""
    channels = 3 * GDN_HEADS * GDN_DIM // shape.scale
    x, weight = _random(shape.tokens, channels, dtype=dtype), _random(channels, TAPS, dtype=dtype)
    tails = torch.zeros(2, TAPS - 1, channels, dtype=dtype)
    flops = (2 * TAPS + 4) * x.numel()
    return Case((x, weight, tails, *_segments(shape)), 2 * _bytes(x) + _bytes(weight), flops)


def gated_delta(shape: Shape, dtype: torch.dtype) -> Case:
    """The recurrence: its own FLOPs, not those of a chunked form, which does more."""
    t, heads = shape.tokens, GDN_HEADS // min(shape.scale, GDN_HEADS)
    q, k, v = (_random(t, heads, GDN_DIM, dtype=dtype) for _ in range(3))
    a, b = (_random(t, heads, dtype=dtype) for _ in range(2))
    states = torch.zeros(2, heads, GDN_DIM, GDN_DIM)
    gates = (torch.zeros(heads), torch.zeros(heads))
    moved = _bytes(q, k, v, v, a, b) + _bytes(states[1]) * (1 + shape.questions)
    return Case(
        (q, k, v, a, b, *gates, states, *_segments(shape)),
        moved,
        7 * t * heads * GDN_DIM * GDN_DIM,
    )


def tree_attention(shape: Shape, dtype: torch.dtype) -> Case:
    """A state and its questions, every row a query."""
    t = shape.tokens
    q = _random(t, QUERY_HEADS, HEAD_DIM, dtype=dtype)
    k, v = (_random(t, KV_HEADS, HEAD_DIM, dtype=dtype) for _ in range(2))
    start, lengths, *_ = _segments(shape)
    offsets = torch.tensor([0, *range(shape.questions + 1)])
    spans = torch.tensor([[0, shape.state]] * shape.questions)
    made = (q, k, v, start, lengths, start, lengths, offsets, spans, HEAD_DIM**-0.5)
    return Case(made, 2 * _bytes(q) + _bytes(k, v), 4 * shape.pairs * QUERY_HEADS * HEAD_DIM)


def label_readout(shape: Shape, dtype: torch.dtype) -> Case:
    """Four labels a question."""
    labels, n = 4, shape.questions
    hidden, head = _hidden_and_head(shape, dtype)
    offsets = torch.arange(n + 1) * labels
    ids = torch.arange(n * labels)
    rows = torch.arange(n) * shape.question
    made = (hidden, head, rows, torch.ones(HIDDEN, dtype=dtype), EPS, False)
    moved = (n + n * labels) * HIDDEN * head.element_size()
    prior, temperature = torch.zeros(n * labels), torch.ones(n)
    return Case((*made, offsets, ids, prior, temperature), moved, 2 * n * labels * HIDDEN)


def log_partition(shape: Shape, dtype: torch.dtype) -> Case:
    """The whole head for every question."""
    n = shape.questions
    hidden, head = _hidden_and_head(shape, dtype)
    made = (hidden, head, torch.arange(n), torch.ones(HIDDEN, dtype=dtype), EPS, False)
    return Case(made, _bytes(head, hidden[:n]), 2 * n * head.numel())


def unpack(shape: Shape, dtype: torch.dtype) -> Case:
    """Eight fields of a number a token, the last of them floats; three words a field before."""
    fields, t = 8, shape.tokens
    starts = torch.arange(fields + 1) * (-(-t // BLOCK) * BLOCK)
    entries = int(starts[1])
    begins = [HEADER * fields + f * t for f in range(fields)]
    head = [word for begin in begins for word in (begin, t, 0)]
    packed = torch.tensor(head + [1] * (fields * t), dtype=torch.int32)
    ints = torch.empty((fields - 1) * entries, dtype=torch.long)
    return Case((packed, starts, ints, torch.empty(entries)), _bytes(packed, ints) + 4 * entries, 0)


def _hidden_and_head(shape: Shape, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    hidden = _random(shape.tokens, HIDDEN, dtype=dtype)
    return hidden, _random(VOCAB // (shape.scale * shape.scale), HIDDEN, dtype=dtype)


CASES: dict[str, Make] = {
    function.__name__: function
    for function in (
        add_rms_norm,
        causal_conv,
        gated_delta,
        gated_rms_norm,
        label_readout,
        linear,
        log_partition,
        norm_rope_write,
        rms_norm,
        sigmoid_gate,
        swiglu,
        tree_attention,
        unpack,
    )
}
"""By operator, in the words of `readoff.kernels.dispatch.OPS`."""
