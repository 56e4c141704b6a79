"""Narrow weights: exact where they can be, near where they can't, rows independent."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx_ir as ir
import onnxruntime
import pytest

from readoff.engine.backbones.traits import TRAITS
from readoff.engine.checkpoint import Checkpoint
from readoff.export.graph.builder import CONTRIB, Builder
from readoff.export.graph.context import Context
from readoff.export.graph.linear import make_linear
from readoff.export.graph.model import build_model
from readoff.export.graph.options import IR_VERSION, OPSET, Flavour, GraphOptions, Precision
from readoff.export.graph.quantise import blockwise, by_column, by_row
from readoff.export.graph.save import to_bytes
from readoff.export.graph.stored import Array, Tensors
from tests.export.graphs import Graph, Reference, ids, tiny
from tests.models import Architecture

CASES: list[tuple[Flavour, Precision, float]] = [
    ("standard", "fp16", 0.003),
    ("contrib", "fp16", 0.003),
    ("standard", "int8", 0.05),
    ("contrib", "int8", 0.05),
    ("standard", "int4", 0.5),
    ("contrib", "int4", 0.5),
]
"""Largest mean difference of logits whose standard deviation is 1, over four random layers."""


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Checkpoint:
    return tiny(tmp_path_factory.mktemp("model"), "qwen3", hidden=96)


@pytest.mark.parametrize(("flavour", "precision", "bound"), CASES)
def test_near_the_model(
    checkpoint: Checkpoint, flavour: Flavour, precision: Precision, bound: float
) -> None:
    graph = Graph(checkpoint, GraphOptions(flavour=flavour, precision=precision))
    rows = [ids(65, 1), ids(3, 2), ids(30, 3)]
    expected = Reference(checkpoint).logits([[row] for row in rows])
    difference = np.abs(graph.run(rows) - expected).mean()
    assert 0 < difference < bound


@pytest.mark.parametrize("architecture", ["qwen2", "qwen3_5"])
@pytest.mark.parametrize(("flavour", "precision"), [case[:2] for case in CASES])
def test_a_past_is_as_good_as_the_tokens(
    architecture: Architecture, flavour: Flavour, precision: Precision, tmp_path: Path
) -> None:
    checkpoint = tiny(tmp_path, architecture)
    graph = Graph(checkpoint, GraphOptions(flavour=flavour, precision=precision))
    state, question = ids(70, 4), ids(10, 5)
    cold = graph.run([state + question])
    graph.run([state])
    past = graph.after(graph.empty(), 0, 0, len(state))
    warm = graph.run([question, ids(20, 6)], past, [len(state)])
    # A number that rounds the other way here and there; a lost past would move the logits by 1.
    assert np.abs(warm[:1] - cold).mean() < 0.05


@pytest.mark.parametrize("precision", ["fp32", "int8"])
def test_rows_do_not_depend_on_their_company(checkpoint: Checkpoint, precision: Precision) -> None:
    """A loud row shares no scale with a quiet one."""
    graph = Graph(checkpoint, GraphOptions(precision=precision))
    row = ids(20, 7)
    alone = graph.run([row])
    together = graph.run([row, ids(20, 8), ids(20, 9)])
    np.testing.assert_allclose(together[:1], alone, atol=1e-5)


def test_int8_has_no_error_where_numbers_are_levels(checkpoint: Checkpoint) -> None:
    tensors = Tensors(checkpoint)
    name = "model.layers.0.mlp.down_proj.weight"
    weight = tensors.read(name).numpy()
    numbers, scales = (stored.numpy() for stored in by_column(tensors, name))
    assert numbers.shape == weight.T.shape
    assert np.abs(numbers).max() == 127
    step = np.abs(weight).max(1) / 127
    np.testing.assert_allclose(scales, step, rtol=1e-6)
    assert (np.abs(numbers * scales - weight.T) <= step / 2 * 1.001).all()
    table, factors = (stored.numpy() for stored in by_row(tensors, "model.embed_tokens.weight"))
    assert table.shape[0] == factors.shape[0] == 512
    embedding = tensors.read("model.embed_tokens.weight").numpy()
    assert (np.abs(table * factors - embedding) <= factors / 2 * 1.001).all()


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("block", [16, 32, 64])
def test_blocks_unpack_to_the_weight(checkpoint: Checkpoint, bits: int, block: int) -> None:
    """Blocks that don't divide the row (96 and 160 inputs), and an odd number of them."""
    tensors = Tensors(checkpoint)
    for name in ("model.layers.1.mlp.up_proj.weight", "model.layers.1.mlp.down_proj.weight"):
        weight = tensors.read(name).numpy()
        parts = [stored.numpy() for stored in blockwise(tensors, name, bits, block).values()]
        packed, scales, zeros = parts
        blocks = -(-weight.shape[1] // block)
        assert packed.shape == (len(weight), blocks, block * bits // 8)
        zeros = zeros.reshape(len(weight), -1)
        if bits == 4:
            packed = np.stack([packed & 15, packed >> 4], -1).reshape(len(weight), blocks, block)
            zeros = np.stack([zeros & 15, zeros >> 4], -1).reshape(len(weight), -1)[:, :blocks]
        scales = scales.reshape(len(weight), blocks, 1)
        levels = packed.astype(np.float32) - zeros.astype(np.float32)[..., None]
        whole = (levels * scales).reshape(len(weight), -1)[:, : weight.shape[1]]
        steps = np.repeat(scales[..., 0], block, 1)[:, : weight.shape[1]]
        # Half a step, and half of one more at the edge of a range whose zero was rounded.
        assert (np.abs(whole - weight) <= steps * 1.001).all()
        assert np.abs(whole - weight).mean() < steps.mean() * 0.3


def test_rows_of_zeros(checkpoint: Checkpoint) -> None:
    class Zeros(Tensors):
        def read(self, name: str):  # type: ignore[no-untyped-def]
            return super().read(name) * 0

        def rows(self, name: str):  # type: ignore[no-untyped-def]
            return (block * 0 for block in super().rows(name))

    tensors, name = Zeros(checkpoint), "model.layers.0.mlp.up_proj.weight"
    for stored in (*by_column(tensors, name), *by_row(tensors, name)):
        assert np.isfinite(stored.numpy()).all()
    packed = blockwise(tensors, name, 4, 32)
    assert not packed["int4"].numpy().any()
    assert np.isfinite(packed["scales"].numpy()).all()


def test_layers_may_be_kept_in_fp32(checkpoint: Checkpoint) -> None:
    kept = frozenset({"down_proj", "o_proj"})
    model = build_model(checkpoint, GraphOptions(precision="int8", kept=kept))
    kinds = {name: value.dtype for name, value in model.graph.initializers.items()}
    for layer in range(4):
        assert kinds[f"model.layers.{layer}.mlp.down_proj.weight"] == ir.DataType.FLOAT
        assert kinds[f"model.layers.{layer}.self_attn.o_proj.weight"] == ir.DataType.FLOAT
        assert kinds[f"model.layers.{layer}.mlp.up_proj.weight.int8"] == ir.DataType.INT8


def test_gates_of_the_delta_rule_stay_in_fp32(tmp_path: Path) -> None:
    model = build_model(tiny(tmp_path, "qwen3_5"), GraphOptions(precision="int4"))
    stored = model.graph.initializers
    for name in ("in_proj_a", "in_proj_b"):
        assert stored[f"model.layers.0.linear_attn.{name}.weight"].dtype == ir.DataType.FLOAT
    assert "model.layers.0.linear_attn.in_proj_qkv.weight.int8" in stored


def test_what_of_an_int4_graph_has_four_bits(checkpoint: Checkpoint) -> None:
    stored = build_model(checkpoint, GraphOptions(precision="int4")).graph.initializers
    four = {n.split(".")[-3] for n in stored if n.endswith(".int4")}
    eight = {n.split(".")[-3] for n in stored if n.endswith(".int8") and "layers" in n}
    assert four == {"gate_proj", "up_proj"}
    assert eight == {"q_proj", "k_proj", "v_proj", "o_proj", "down_proj"}


def test_fine_inputs_leave_the_rounding_of_the_weights_alone(tmp_path: Path) -> None:
    """An input with one value a thousand times the others, in 8 bits and in 16."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((3, 160)).astype(np.float32)
    x[:, 7] *= 1000.0
    checkpoint = tiny(tmp_path, "qwen2", layers=1)
    errors = {}
    for name, fine in (
        ("mlp.down_proj", True),
        ("self_attn.o_proj", True),
        ("mlp.down_proj", False),
    ):
        tensors = Tensors(checkpoint)
        full = f"model.layers.0.{name}.weight"
        numbers, scales = (stored.numpy() for stored in by_column(tensors, full))
        given = x[:, : numbers.shape[0]]
        exact = given.astype(np.float64) @ (numbers * scales).astype(np.float64)
        found = product(checkpoint, f"model.layers.0.{name}", given, fine=fine)
        errors[name, fine] = np.abs(found - exact).max() / np.abs(exact).std()
    assert errors["mlp.down_proj", True] < 3e-3
    assert errors["self_attn.o_proj", True] > 3e-2
    assert errors["mlp.down_proj", False] > 3e-2


@pytest.mark.parametrize("precision", ["int8", "int4"])
@pytest.mark.parametrize("name", ["mlp.down_proj", "mlp.up_proj", "self_attn.o_proj"])
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_numbers_that_are_none_stay_so(
    tmp_path: Path, precision: Precision, name: str, bad: float
) -> None:
    """Quantised they would be numbers like any other; rows beside them are what they were."""
    checkpoint = tiny(tmp_path, "qwen2", layers=1)
    width = checkpoint.shape(f"model.layers.0.{name}.weight")[1]
    x = np.random.default_rng(0).standard_normal((3, width)).astype(np.float32)
    before = product(checkpoint, f"model.layers.0.{name}", x, precision=precision)
    x[1, 5] = bad
    after = product(checkpoint, f"model.layers.0.{name}", x, precision=precision)
    assert not np.isfinite(after[1]).any()
    assert np.array_equal(after[[0, 2]], before[[0, 2]])


def product(
    checkpoint: Checkpoint,
    path: str,
    x: Array,
    *,
    precision: Precision = "int8",
    fine: bool = False,
) -> Array:
    """One linear layer as a graph of its own."""
    options = GraphOptions(precision=precision, fine=fine)
    context = Context(
        checkpoint.config, TRAITS[checkpoint.config.architecture], options, Tensors(checkpoint)
    )
    given = ir.Value(name="x", shape=ir.Shape(x.shape), type=ir.TensorType(ir.DataType.FLOAT))
    b = Builder(path)
    y = b.op("Identity", make_linear(b, context, given), output="y")
    y.type = ir.TensorType(ir.DataType.FLOAT)
    graph = ir.Graph(
        [given],
        [y],
        nodes=b.nodes,
        initializers=list(b.weights.values()),
        opset_imports={"": OPSET, CONTRIB: 1},
        name="linear",
    )
    model = to_bytes(ir.Model(graph, ir_version=IR_VERSION))
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    found: Array = session.run(["y"], {"x": x})[0]
    return found
