"""`Work`: what a rung made the model do, counted while it ran or from its prompts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from readoff.engine.config import ModelConfig
from readoff.engine.parameters import parameter_shapes
from readoff.engine.prompt import Prompt

_TABLES = ("model.embed_tokens.weight", "lm_head.weight")


@dataclass(frozen=True)
class Work:
    """Passes over the weights, tokens through the layers, (query, key) pairs of one attention
    layer, and rows of the head multiplied. Counts add up."""

    passes: int = 0
    tokens: int = 0
    pairs: int = 0
    head_rows: int = 0

    def __add__(self, other: Work) -> Work:
        return Work(
            self.passes + other.passes,
            self.tokens + other.tokens,
            self.pairs + other.pairs,
            self.head_rows + other.head_rows,
        )


def body(config: ModelConfig) -> int:
    """Parameters that every token passes through: all but the embedding and the head."""
    sizes = parameter_shapes(config)
    total = 0
    for name, shape in sizes.items():
        count = 1
        for n in shape:
            count *= n
        total += 0 if name in _TABLES else count
    return total


def flops(config: ModelConfig, work: Work) -> float:
    """Floating-point operations of `work`, a product and a sum counted as two.

    Layers 2 · body a token; attention 4 · heads · head_dim a pair and layer; the delta rule three
    products with a state a token, head and layer; the head 2 · hidden a row. Nothing is taken off
    for what a last layer may skip.
    """
    full = sum(kind == "full_attention" for kind in config.layer_types)
    attention = 4 * config.num_heads * config.head_dim * full * work.pairs
    state = (
        config.linear_num_value_heads * config.linear_key_head_dim * config.linear_value_head_dim
    )
    recurrence = 6 * state * (config.num_layers - full) * work.tokens
    head = 2 * config.hidden_size * work.head_rows
    return float(2 * body(config) * work.tokens + attention + recurrence + head)


def bytes_moved(config: ModelConfig, work: Work, element_size: int) -> float:
    """The least that `work` reads: the layers' weights once a pass, and the rows of the head."""
    numbers = body(config) * work.passes + config.hidden_size * work.head_rows
    return float(numbers * element_size)


def causal_pairs(new: int, before: int = 0) -> int:
    """(query, key) pairs of `new` tokens after `before` others."""
    return new * before + new * (new + 1) // 2


def separate(prompts: Sequence[Prompt], head_rows: int | None = None) -> Work:
    """One pass a prompt. `head_rows` a prompt; None: its labels only."""
    total = Work()
    for prompt in prompts:
        rows = len(prompt.labels.ids) if head_rows is None else head_rows
        total += Work(1, len(prompt), causal_pairs(len(prompt)), rows)
    return total


def shared(prompts: Sequence[Prompt], *, warm: int = 0) -> Work:
    """One pass over the tree of `prompts`. `warm`: the first `warm` pieces are computed already."""
    seen: set[tuple[tuple[int, ...], ...]] = set()
    tokens = pairs = rows = 0
    for prompt in prompts:
        path: tuple[tuple[int, ...], ...] = ()
        before = 0
        for depth, piece in enumerate(prompt.pieces):
            path = (*path, piece.ids)
            if path not in seen and depth >= warm:
                tokens += len(piece.ids)
                pairs += causal_pairs(len(piece.ids), before)
            seen.add(path)
            before += len(piece.ids)
        rows += len(prompt.labels.ids)
    return Work(1, tokens, pairs, rows)
