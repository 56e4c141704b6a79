"""The chunked delta rule and its inverse alone, against the recurrence and numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir
import onnxruntime
import pytest
import torch
from numpy.typing import NDArray

from readoff.engine.config import ModelConfig
from readoff.export.graph.builder import Builder
from readoff.export.graph.delta_rule import make_delta_rule
from readoff.export.graph.inverse import make_unit_inverse
from readoff.export.graph.options import IR_VERSION, OPSET
from readoff.kernels.gated_delta.reference import gated_delta

Array = NDArray[Any]
HEADS, KEYS, VALUES = 4, 16, 8


def config() -> ModelConfig:
    return ModelConfig(
        architecture="qwen3_5",
        vocab_size=8,
        hidden_size=8,
        intermediate_size=8,
        num_layers=1,
        num_heads=1,
        num_kv_heads=1,
        head_dim=8,
        rms_norm_eps=1e-6,
        rope_theta=1e4,
        rotary_dim=2,
        qkv_bias=False,
        tie_word_embeddings=True,
        max_position_embeddings=64,
        layer_types=("linear_attention",),
        linear_num_key_heads=2,
        linear_num_value_heads=HEADS,
        linear_key_head_dim=KEYS,
        linear_value_head_dim=VALUES,
        conv_kernel=4,
    )


def run(
    b: Builder, inputs: dict[str, ir.Value], outputs: list[ir.Value], feeds: Any
) -> list[Array]:
    for value in outputs:
        value.type = ir.TensorType(ir.DataType.FLOAT)
    graph = ir.Graph(
        list(inputs.values()),
        outputs,
        nodes=b.nodes,
        initializers=list(b.weights.values()),
        opset_imports={"": OPSET},
        name="test",
    )
    model = ir.to_proto(ir.Model(graph, ir_version=IR_VERSION)).SerializeToString()
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    found: list[Array] = session.run(None, feeds)
    return found


def value(name: str, *shape: int | str, dtype: ir.DataType = ir.DataType.FLOAT) -> ir.Value:
    return ir.Value(name=name, shape=ir.Shape(shape), type=ir.TensorType(dtype))


def chunked(mixed: Array, decay: Array, strength: Array, state: Array) -> tuple[Array, Array]:
    """Outputs [B, T, Hv, Dv] and states [B, Hv, Dk, Dv]."""
    channels = mixed.shape[-1]
    inputs = {
        "time": value("time", 1, dtype=ir.DataType.INT64),
        "mixed": value("mixed", "B", "T", channels),
        "decay": value("decay", "B", "T", HEADS),
        "strength": value("strength", "B", "T", HEADS),
        "state": value("state", "B", HEADS, KEYS, VALUES),
    }
    b = Builder("rule")
    out = make_delta_rule(b, config(), new="after", **inputs)
    after = next(v for node in b.nodes for v in node.outputs if v.name == "after")
    feeds = {
        "time": np.array([mixed.shape[1]]),
        "mixed": mixed,
        "decay": decay,
        "strength": strength,
        "state": state,
    }
    found = run(b, inputs, [out, after], feeds)
    return found[0], found[1]


def recurrence(mixed: Array, decay: Array, strength: Array, state: Array) -> tuple[Array, Array]:
    """The same token by token in fp64."""
    outs, states = [], []
    for row in range(len(mixed)):
        x = torch.from_numpy(mixed[row]).double()
        q, k, v = x.split([2 * KEYS, 2 * KEYS, HEADS * VALUES], dim=-1)
        # log α = -e^a_log softplus(a) with a_log 0, so a = log(e^(-log α) - 1); β = sigmoid(b).
        rate = torch.from_numpy(-decay[row]).double().clamp(min=1e-12)
        b = torch.logit(torch.from_numpy(strength[row]).double())
        slots = torch.stack([torch.from_numpy(state[row]).double()] * 3)
        one, zero, two = torch.tensor([1]), torch.tensor([0]), torch.tensor([2])
        out = gated_delta(
            q.unflatten(-1, (2, KEYS)),
            k.unflatten(-1, (2, KEYS)),
            v.unflatten(-1, (HEADS, VALUES)),
            torch.log(torch.expm1(rate)),
            b,
            torch.zeros(HEADS),
            torch.zeros(HEADS),
            slots,
            zero,
            torch.tensor([len(x)]),
            zero,
            one,
            two,
        )
        outs.append(out.numpy())
        states.append(slots[2].numpy())
    return np.stack(outs), np.stack(states)


def inputs(length: int, rows: int, seed: int) -> tuple[Array, Array, Array, Array]:
    rng = np.random.default_rng(seed)
    mixed = rng.standard_normal((rows, length, 4 * KEYS + HEADS * VALUES))
    decay = -np.exp(rng.uniform(-6, 1, (rows, length, HEADS)))
    strength = rng.uniform(0.05, 0.98, (rows, length, HEADS))
    state = rng.standard_normal((rows, HEADS, KEYS, VALUES))
    made = (mixed, decay, strength, state)
    return tuple(x.astype(np.float32) for x in made)  # type: ignore[return-value]


@pytest.mark.parametrize("length", [1, 2, 63, 64, 65, 128, 200])
@pytest.mark.parametrize("rows", [1, 3])
def test_the_chunked_form_is_the_recurrence(length: int, rows: int) -> None:
    x = inputs(length, rows, length)
    for found, expected in zip(chunked(*x), recurrence(*x), strict=True):
        np.testing.assert_allclose(found, expected, atol=2e-5)


@pytest.mark.parametrize("strength", [0.5, 0.95, 0.999])
def test_equal_keys(strength: float) -> None:
    """Powers of A would err by 1e8 here."""
    mixed, decay, beta, state = inputs(130, 1, 0)
    mixed[:] = mixed[:, :1]
    decay[:], beta[:] = -1e-3, strength
    x = (mixed, decay, beta, state)
    for found, expected in zip(chunked(*x), recurrence(*x), strict=True):
        np.testing.assert_allclose(found, expected, atol=2e-5)


def test_neutral_tokens_leave_the_state_alone() -> None:
    mixed, decay, beta, state = inputs(70, 2, 1)
    decay[0, 5:], beta[0, 5:] = 0.0, 0.0
    _, after = chunked(mixed, decay, beta, state)
    _, expected = recurrence(mixed[:1, :5], decay[:1, :5], beta[:1, :5], state[:1])
    np.testing.assert_allclose(after[:1], expected, atol=2e-5)


def test_decays_beyond_the_range_of_numbers() -> None:
    mixed, decay, beta, state = inputs(66, 1, 2)
    decay[:] = -50.0
    out, after = chunked(mixed, decay, beta, state)
    assert np.isfinite(out).all()
    assert np.isfinite(after).all()
    expected = recurrence(mixed, decay, beta, state)
    np.testing.assert_allclose(out, expected[0], atol=2e-5)
    np.testing.assert_allclose(after, expected[1], atol=2e-5)


@pytest.mark.parametrize("size", [16, 32, 64, 128])
@pytest.mark.parametrize("kind", ["random", "equal"])
def test_unit_inverse(size: int, kind: str) -> None:
    rng = np.random.default_rng(size)
    full = (
        rng.standard_normal((2, 3, size, size))
        if kind == "random"
        else np.full((2, 3, size, size), 0.95)
    )
    lower = np.tril(full * (0.2 if kind == "random" else 1.0), -1).astype(np.float32)
    b = Builder("test")
    given = value("lower", 2, 3, size, size)
    out = make_unit_inverse(b, given, size)
    (found,) = run(b, {"lower": given}, [out], {"lower": lower})
    expected = np.linalg.inv(np.eye(size) + lower.astype(np.float64))
    np.testing.assert_allclose(found, expected, atol=1e-5 * np.abs(expected).max())
