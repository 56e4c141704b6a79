"""The file: checked, of standard operators, of one size for all lengths, weights beside it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest

from readoff.engine.parameters import parameter_shapes
from readoff.export.graph.builder import CONTRIB
from readoff.export.graph.model import build_model
from readoff.export.graph.options import IR_VERSION, OPSET, Flavour, GraphOptions, Precision
from readoff.export.graph.save import save, to_bytes
from tests.export.graphs import Graph, ids, tiny
from tests.models import ARCHITECTURES, Architecture


def all_nodes(model: ir.Model) -> list[ir.Node]:
    return list(model.graph.all_nodes())


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("precision", ["fp32", "fp16", "int8"])
def test_a_standard_graph_passes_the_checker(
    architecture: Architecture, precision: Precision, tmp_path: Path
) -> None:
    model = build_model(tiny(tmp_path, architecture), GraphOptions(precision=precision))
    assert {node.domain for node in all_nodes(model)} == {""}
    onnx.checker.check_model(onnx.load_from_string(to_bytes(model)), full_check=True)
    assert model.graph.opset_imports == {"": OPSET}
    assert model.ir_version == IR_VERSION


@pytest.mark.parametrize(
    ("flavour", "precision", "expected"),
    [
        ("contrib", "fp32", {"GatedDeltaNet", "CausalConvWithState", "GroupQueryAttention"}),
        ("standard", "int4", {"MatMulNBits"}),
    ],
)
def test_contrib_operators(
    flavour: Flavour, precision: Precision, expected: set[str], tmp_path: Path
) -> None:
    options = GraphOptions(flavour=flavour, precision=precision)
    model = build_model(tiny(tmp_path, "qwen3_5", layers=8), options)
    assert {node.op_type for node in all_nodes(model) if node.domain == CONTRIB} == expected
    onnx.checker.check_model(onnx.load_from_string(to_bytes(model)))


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_names_mirror_module_paths(architecture: Architecture, tmp_path: Path) -> None:
    checkpoint = tiny(tmp_path, architecture, tied=False)
    model = build_model(checkpoint)
    names = [node.name or "" for node in all_nodes(model)]
    assert len(set(names)) == len(names)
    products = {name.removesuffix("/MatMul") for name in names if name.endswith("_proj/MatMul")}
    shapes = parameter_shapes(checkpoint.config)
    linear = {name.removesuffix(".weight") for name in shapes if name.endswith("_proj.weight")}
    assert products == linear
    stored = set(model.graph.initializers)
    unchanged = {n for n in shapes if not n.endswith(("A_log", "conv1d.weight"))}
    assert unchanged <= stored
    for name in shapes.keys() - unchanged:
        assert any(found.startswith(f"{name}.") for found in stored)


def test_the_graph_grows_with_the_layers_only(tmp_path: Path) -> None:
    """There is no number of tokens anywhere, so no loop is unrolled over them."""
    sizes = [
        len(all_nodes(build_model(tiny(tmp_path / str(layers), "qwen3_5", layers=layers))))
        for layers in (4, 8, 12)
    ]
    assert sizes[2] - sizes[1] == sizes[1] - sizes[0] < 900


def test_weights_lie_beside_the_graph(tmp_path: Path) -> None:
    checkpoint = tiny(tmp_path / "model", "qwen3", hidden=128)
    model = build_model(checkpoint)
    path, data = save(model, tmp_path / "decision.onnx")
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted((path.name, data.name, "model"))
    assert path.stat().st_size < 250_000 < data.stat().st_size
    onnx.checker.check_model(path, full_check=True)
    stored = onnx.load(path, load_external_data=False)
    places = {
        entry.value
        for tensor in stored.graph.initializer
        for entry in tensor.external_data
        if entry.key == "location"
    }
    assert places == {data.name}
    moved = tmp_path / "elsewhere"
    moved.mkdir()
    for file in (path, data):
        file.rename(moved / file.name)
    graph = Graph(checkpoint)
    rows = [ids(30, 1), ids(4, 2)]
    expected = graph.run(rows)
    graph.session = onnxruntime.InferenceSession(
        moved / path.name, providers=["CPUExecutionProvider"]
    )
    assert np.array_equal(graph.run(rows), expected)


def test_exports_are_reproducible(tmp_path: Path) -> None:
    checkpoint = tiny(tmp_path, "qwen3_5")
    assert to_bytes(build_model(checkpoint)) == to_bytes(build_model(checkpoint))


def test_the_border_is_described_without_torch_or_onnx() -> None:
    code = (
        "import sys; import readoff.export.graph.interface, readoff.export.graph.options\n"
        "assert not {'torch', 'onnx', 'onnx_ir', 'onnxruntime'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
