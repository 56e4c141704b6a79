"""The recurrent layer of Qwen3.5."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from readoff.engine.config import ModelConfig
from readoff.export.graph.builder import CONTRIB, Builder
from readoff.export.graph.causal_conv import make_causal_conv
from readoff.export.graph.context import Context, Shared
from readoff.export.graph.delta_rule import make_delta_rule
from readoff.export.graph.linear import make_linear
from readoff.export.graph.norms import make_rms_norm


def make_gated_deltanet(
    b: Builder,
    context: Context,
    shared: Shared,
    x: ir.Value,
    past: tuple[ir.Value, ir.Value],
    new: tuple[str, str],
) -> ir.Value:
    """x: [B, T, H] normed; past: state [P, Hv, Dk, Dv] and tail [P, K - 1, C], fp32.

    State and tail after each row's true tokens become the outputs called `new`: padding behind a
    row neither decays the state nor writes to it. Returns [B, T, H].
    """
    config = context.config
    heads, keys, values = (
        config.linear_num_value_heads,
        config.linear_key_head_dim,
        config.linear_value_head_dim,
    )
    mixed = make_linear(b.within("in_proj_qkv"), context, x)
    z = make_linear(b.within("in_proj_z"), context, x)
    mixed = make_causal_conv(b.within("conv1d"), context, shared, mixed, past[1], new[1])
    decay, strength = make_gates(b, context, shared, x)
    state = b.op("Expand", past[0], b.vector(shared.batch, heads, keys, values))
    if context.options.flavour == "contrib":
        out = make_contrib_delta_rule(
            b.within("delta_rule"), config, mixed, decay, strength, state, new[0]
        )
    else:
        out = make_delta_rule(
            b.within("delta_rule"), config, shared.time, mixed, decay, strength, state, new[0]
        )
    out = make_rms_norm(b.within("norm"), context, out, plus_one=False)
    out = b.op("Mul", out, b.silu(b.reshape(z, 0, 0, heads, values)))
    return make_linear(b.within("out_proj"), context, b.reshape(out, 0, 0, heads * values))


def make_gates(
    b: Builder, context: Context, shared: Shared, x: ir.Value
) -> tuple[ir.Value, ir.Value]:
    """log α = -exp(A_log) softplus(a + dt_bias) and β = sigmoid(b), [B, T, Hv]; padding has 0.

    Their projections stay in fp32: they are tiny, and an error in a decay grows with the length.
    """
    a = make_linear(b.within("in_proj_a"), context, x, exact=True)
    strength = b.op("Sigmoid", make_linear(b.within("in_proj_b"), context, x, exact=True))
    name, heads = f"{b.path}.A_log", (context.config.linear_num_value_heads,)
    rate = b.weight(f"{name}.rate", context.tensors.small(name, heads, lambda w: -np.exp(w)))
    step = b.op("Softplus", b.op("Add", a, context.vector(b, f"{b.path}.dt_bias")))
    decay = b.op("Mul", step, rate)
    none = b.number(0.0)
    return b.op("Where", shared.true, decay, none), b.op("Where", shared.true, strength, none)


def make_contrib_delta_rule(
    b: Builder,
    config: ModelConfig,
    mixed: ir.Value,
    decay: ir.Value,
    strength: ir.Value,
    state: ir.Value,
    new: str,
) -> ir.Value:
    """`make_delta_rule` as ONNX Runtime's operator, whose states have the value dimension first."""
    key_heads, keys = config.linear_num_key_heads, config.linear_key_head_dim
    heads, values = config.linear_num_value_heads, config.linear_value_head_dim
    q, k, v = b.split(mixed, key_heads * keys, key_heads * keys, heads * values)
    out, after = b.ops(
        "GatedDeltaNet",
        b.reshape(q, 0, 0, key_heads, keys),
        b.reshape(k, 0, 0, key_heads, keys),
        b.reshape(v, 0, 0, heads, values),
        None,
        decay,
        strength,
        b.transpose(state, 0, 1, 3, 2),
        domain=CONTRIB,
        outputs=[None, None],
        qk_l2_norm=1,
    )
    b.op("Transpose", after, perm=[0, 1, 3, 2], output=new)
    return out
