"""The names, types and shapes at a graph's border. No torch and no onnx in this file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from readoff.engine.config import ModelConfig
from readoff.export.graph.options import FixedLabels, GraphOptions

Dimension = int | str
ElementType = Literal["float32", "float16", "int64"]
Kind = Literal["key", "value", "state", "tail"]

TOKENS, LENGTHS, PAST_LENGTHS = "tokens", "lengths", "past_lengths"
LABEL_IDS, LABEL_COUNTS, PRIOR, TEMPERATURE = "label_ids", "label_counts", "prior", "temperature"
LOGITS, PROBABILITIES = "logits", "probabilities"


@dataclass(frozen=True)
class Port:
    """One input or output; a dimension that is text may be anything, the same for equal texts."""

    name: str
    dtype: ElementType
    shape: tuple[Dimension, ...]


@dataclass(frozen=True)
class Carried:
    """What a layer hands on: the input `past`, and the output `new` of the same type."""

    layer: int
    kind: Kind
    past: Port
    new: Port


def carried(config: ModelConfig, options: GraphOptions) -> tuple[Carried, ...]:
    """Every tensor of the past, in layer order: key and value, or state and tail."""
    keys: ElementType = "float16" if options.precision == "fp16" else "float32"
    heads = (config.num_kv_heads, config.head_dim)
    state = (
        config.linear_num_value_heads,
        config.linear_key_head_dim,
        config.linear_value_head_dim,
    )
    tail = (config.conv_kernel - 1, channels(config))
    found = []
    for layer, layer_type in enumerate(config.layer_types):
        if layer_type == "full_attention":
            for kind in ("key", "value"):
                past = Port(f"past.{layer}.{kind}", keys, ("past_batch", "past", *heads))
                new = Port(f"new.{layer}.{kind}", keys, ("batch", "time", *heads))
                found.append(Carried(layer, "key" if kind == "key" else "value", past, new))
        else:
            for kind, shape in (("state", state), ("tail", tail)):
                past = Port(f"past.{layer}.{kind}", "float32", ("past_batch", *shape))
                new = Port(f"new.{layer}.{kind}", "float32", ("batch", *shape))
                found.append(Carried(layer, "state" if kind == "state" else "tail", past, new))
    return tuple(found)


def inputs(config: ModelConfig, options: GraphOptions) -> tuple[Port, ...]:
    """All inputs in the order of the graph."""
    ports = [
        Port(TOKENS, "int64", ("batch", "time")),
        Port(LENGTHS, "int64", ("batch",)),
        Port(PAST_LENGTHS, "int64", ("past_batch",)),
    ]
    if not isinstance(options.labels, FixedLabels):
        ports += [
            Port(LABEL_IDS, "int64", ("batch", "labels")),
            Port(LABEL_COUNTS, "int64", ("batch",)),
            Port(PRIOR, "float32", ("batch", "labels")),
            Port(TEMPERATURE, "float32", ("batch",)),
        ]
    return (*ports, *(c.past for c in carried(config, options)))


def outputs(config: ModelConfig, options: GraphOptions) -> tuple[Port, ...]:
    """All outputs in the order of the graph."""
    fixed = isinstance(options.labels, FixedLabels)
    width: Dimension = len(options.labels.ids) if fixed and options.labels else "labels"
    readout = [Port(name, "float32", ("batch", width)) for name in (LOGITS, PROBABILITIES)]
    return (*readout, *(c.new for c in carried(config, options)))


def channels(config: ModelConfig) -> int:
    """How many channels the convolution of a hybrid layer has: queries, keys and values."""
    keys = config.linear_num_key_heads * config.linear_key_head_dim
    return 2 * keys + config.linear_num_value_heads * config.linear_value_head_dim
