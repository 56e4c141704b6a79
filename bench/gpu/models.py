"""The models that are measured: shapes, seeded weights, and what a pass over them must do."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

from readoff.bench.seeded import QWEN35_08B, QWEN35_4B, SeededOnDevice
from readoff.engine.backbones.decoder import Backbone
from readoff.engine.batch import Batch
from readoff.engine.config import ModelConfig
from readoff.engine.parameters import parameter_shapes

TINY = replace(
    QWEN35_08B,
    vocab_size=512,
    hidden_size=64,
    intermediate_size=160,
    num_layers=2,
    num_heads=4,
    head_dim=32,
    rotary_dim=8,
    layer_types=QWEN35_08B.layer_types[2:4],
    linear_num_key_heads=2,
    linear_num_value_heads=4,
    linear_key_head_dim=16,
    linear_value_head_dim=32,
    dtype="float32",
)
"""Small enough to try every line of the bench on a CPU."""


@dataclass(frozen=True)
class Shape:
    """A model by name; `scale` divides the token counts of all cases."""

    name: str
    config: ModelConfig
    scale: int = 1


SHAPES = {
    shape.name: shape
    for shape in (
        Shape("0.8B", QWEN35_08B),
        Shape("4B", QWEN35_4B),
        Shape("tiny", TINY, scale=20),
    )
}


def load(config: ModelConfig, dtype: torch.dtype, device: torch.device) -> Backbone:
    """Seeded weights in `dtype`; the same numbers in every dtype but for rounding."""
    return Backbone.load(config, SeededOnDevice(config, device), dtype, device)


@dataclass(frozen=True)
class Work:
    """What passes must do at least: `flops` of linear layers and attention, `bytes` of weights,
    label rows, keys, values and states that are read once a pass."""

    tokens: int
    flops: float
    bytes: float

    def __add__(self, other: Work) -> Work:
        return Work(self.tokens + other.tokens, self.flops + other.flops, self.bytes + other.bytes)


def work_of(config: ModelConfig, batches: Sequence[Batch], weight_bytes: float = 2.0) -> Work:
    """Counted from the shapes. The delta rule's own arithmetic (some per cent) isn't counted."""
    total = Work(0, 0.0, 0.0)
    for batch in batches:
        total += _work(config, batch, weight_bytes)
    return total


def _work(config: ModelConfig, batch: Batch, weight_bytes: float) -> Work:
    tokens, reads = len(batch.tokens), len(batch.rows)
    every, last = projections(config)
    pairs, context = _attended(batch)
    full = config.layer_types.count("full_attention")
    flops = 2.0 * (tokens * every + reads * last)
    flops += 4.0 * config.num_heads * config.head_dim * pairs * full
    keys = 2.0 * 2 * config.num_kv_heads * config.head_dim * context * full
    rows = 2.0 * config.hidden_size * (tokens + len(batch.label_ids))
    started = int((batch.parent_state > 0).sum())
    state = 4.0 * config.linear_num_value_heads
    state *= config.linear_key_head_dim * config.linear_value_head_dim
    states = state * started * (config.num_layers - full)
    return Work(tokens, flops, weight_bytes * (every + last) + keys + rows + states)


def projections(config: ModelConfig) -> tuple[int, int]:
    """Weights of linear layers that every token passes, and those that only read rows pass."""
    every = last = 0
    final = f"model.layers.{config.num_layers - 1}."
    attends = config.layer_types[-1] == "full_attention"
    for name, shape in parameter_shapes(config).items():
        if "_proj" not in name or len(shape) != 2:
            continue
        reads_only = name.startswith(final) and (
            ".mlp." in name or (attends and not name.endswith(("k_proj.weight", "v_proj.weight")))
        )
        if reads_only:
            last += math.prod(shape)
        else:
            every += math.prod(shape)
    return every, last


def _attended(batch: Batch) -> tuple[float, float]:
    """(query, key) pairs of all segments, and keys that lie before the pass."""
    runs = batch.runs
    bounds = runs.chain_offsets.tolist()
    spans = runs.chain_spans.tolist()
    pairs, before = 0.0, set[tuple[int, int]]()
    here = set(batch.slots.tolist())
    for s, (n, own) in enumerate(zip(runs.q_length.tolist(), runs.kv_length.tolist(), strict=True)):
        chain = [(a, m) for a, m in spans[bounds[s] : bounds[s + 1]]]
        pairs += n * (sum(m for _, m in chain) + own - n) + n * (n + 1) / 2
        before |= {span for span in chain if span[0] not in here}
        if own > n:
            before.add((int(runs.kv_start[s]), own - n))
    return pairs, float(sum(m for _, m in before))
