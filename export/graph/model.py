"""`build_model`: the whole graph of one checkpoint."""

from __future__ import annotations

from collections.abc import Mapping

import onnx_ir as ir

from readoff.engine.backbones.traits import TRAITS
from readoff.engine.checkpoint import Checkpoint
from readoff.engine.errors import ExportError
from readoff.export.graph import interface
from readoff.export.graph.attention import make_attention
from readoff.export.graph.builder import CONTRIB, Builder
from readoff.export.graph.context import Context, Shared
from readoff.export.graph.gated_deltanet import make_gated_deltanet
from readoff.export.graph.interface import Carried, Kind, Port
from readoff.export.graph.linear import make_embedding
from readoff.export.graph.mlp import make_mlp
from readoff.export.graph.norms import make_rms_norm
from readoff.export.graph.options import IR_VERSION, OPSET, GraphOptions
from readoff.export.graph.readout import make_readout
from readoff.export.graph.shared import make_shared
from readoff.export.graph.stored import Tensors

Past = Mapping[tuple[int, Kind], Carried]
Values = Mapping[str, ir.Value]

_TYPES = {
    "float32": ir.DataType.FLOAT,
    "float16": ir.DataType.FLOAT16,
    "int64": ir.DataType.INT64,
}


def build_model(checkpoint: Checkpoint, options: GraphOptions | None = None) -> ir.Model:
    """The graph described in the package's docstring; weights are read when it is written.

    Raises ExportError for labels that the vocabulary doesn't have.
    """
    options = options or GraphOptions()
    config = checkpoint.config
    if options.labels is not None and max(options.labels.ids) >= config.vocab_size:
        raise ExportError(
            f"Label {max(options.labels.ids)} is outside the vocabulary of {config.vocab_size}."
        )
    tensors = Tensors(checkpoint, half=options.precision == "fp16")
    context = Context(config, TRAITS[config.architecture], options, tensors)
    b = Builder()
    inputs = {port.name: _value(port) for port in interface.inputs(config, options)}
    past: dict[tuple[int, Kind], Carried] = {
        (c.layer, c.kind): c for c in interface.carried(config, options)
    }
    hidden = make_backbone(b.within("model"), context, inputs, past)
    make_readout(b.within("model"), context, hidden, inputs)
    made = {value.name: value for node in b.nodes for value in node.outputs}
    outputs = []
    for port in interface.outputs(config, options):
        value = made[port.name]
        value.shape, value.type = ir.Shape(port.shape), ir.TensorType(_TYPES[port.dtype])
        outputs.append(value)
    imports = {"": OPSET} | ({CONTRIB: 1} if options.uses_contrib else {})
    graph = ir.Graph(
        list(inputs.values()),
        outputs,
        nodes=b.nodes,
        initializers=list(b.weights.values()),
        opset_imports=imports,
        name="readoff",
    )
    return ir.Model(graph, ir_version=IR_VERSION, producer_name="readoff")


def make_backbone(b: Builder, context: Context, inputs: Values, past: Past) -> ir.Value:
    """From token ids to the hidden rows that are read, before the final norm: [B, 1, H]."""
    tokens = inputs[interface.TOKENS]
    keys = [inputs[c.past.name] for c in past.values() if c.kind == "key"]
    shared = make_shared(
        b.within("shared"),
        context,
        tokens,
        inputs[interface.LENGTHS],
        inputs[interface.PAST_LENGTHS],
        keys[0] if keys else None,
    )
    x = make_embedding(b.within("embed_tokens"), context, tokens)
    for layer in range(context.config.num_layers):
        x = make_layer(b.within(f"layers.{layer}"), context, shared, x, layer, inputs, past)
    return x


def make_layer(
    b: Builder,
    context: Context,
    shared: Shared,
    x: ir.Value,
    layer: int,
    inputs: Values,
    past: Past,
) -> ir.Value:
    """[B, T, H] to [B, T, H]; the last layer returns the rows that are read alone, [B, 1, H]."""
    config, plus_one = context.config, context.traits.plus_one
    last = layer == config.num_layers - 1
    normed = make_rms_norm(b.within("input_layernorm"), context, x, plus_one)
    if config.layer_types[layer] == "full_attention":
        key, value = past[layer, "key"], past[layer, "value"]
        mixed = make_attention(
            b.within("self_attn"),
            context,
            shared,
            normed,
            (inputs[key.past.name], inputs[value.past.name]),
            (key.new.name, value.new.name),
            last,
        )
    else:
        state, tail = past[layer, "state"], past[layer, "tail"]
        mixed = make_gated_deltanet(
            b.within("linear_attn"),
            context,
            shared,
            normed,
            (inputs[state.past.name], inputs[tail.past.name]),
            (state.new.name, tail.new.name),
        )
        mixed = _read(b, shared, mixed) if last else mixed
    x = b.op("Add", _read(b, shared, x) if last else x, mixed)
    normed = make_rms_norm(b.within("post_attention_layernorm"), context, x, plus_one)
    return b.op("Add", x, make_mlp(b.within("mlp"), context, normed))


def _read(b: Builder, shared: Shared, x: ir.Value) -> ir.Value:
    """The last true row of each: [B, T, H] to [B, 1, H]."""
    return b.op("GatherND", x, shared.last, batch_dims=1)


def _value(port: Port) -> ir.Value:
    return ir.Value(
        name=port.name, shape=ir.Shape(port.shape), type=ir.TensorType(_TYPES[port.dtype])
    )
