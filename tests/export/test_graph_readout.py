"""The head in the graph: labels, prior, temperature, and what may be baked in."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from readoff.engine.calibration import probabilities
from readoff.engine.checkpoint import Checkpoint
from readoff.engine.errors import CardError, ExportError
from readoff.export.graph.interface import LABEL_IDS, PROBABILITIES, inputs, outputs
from readoff.export.graph.model import build_model
from readoff.export.graph.options import FixedLabels, GraphOptions, LabelBank, Precision
from tests.export.graphs import Graph, Reference, ids, tiny

ROWS = [ids(20, 1), ids(9, 2), ids(33, 3)]
FEW = (5, 9, 200, 311)


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Checkpoint:
    return tiny(tmp_path_factory.mktemp("model"), "qwen3_5")


@pytest.fixture(scope="module")
def graph(checkpoint: Checkpoint) -> Graph:
    return Graph(checkpoint)


def test_rows_have_labels_priors_and_temperatures_of_their_own(
    checkpoint: Checkpoint, graph: Graph
) -> None:
    labels = [[5, 9], [311], [200, 5, 17, 480, 6]]
    prior = [[0.5, -1.0], [3.0], [0.1, 0.2, 0.3, -2.0, 4.0]]
    temperature = [0.5, 2.0, 1.7]
    logits = graph.run(ROWS, labels=labels, prior=prior, temperature=temperature)
    found = graph.last[PROBABILITIES]
    for i, row in enumerate(ROWS):
        (expected,) = Reference(checkpoint).logits([[row]], labels[i])
        count = len(labels[i])
        np.testing.assert_allclose(logits[i, :count], expected, atol=1e-4)
        assert not logits[i, count:].any()
        assert not found[i, count:].any()
        wanted = probabilities(logits[i, :count], prior[i], temperature[i])
        np.testing.assert_allclose(found[i, :count], wanted, atol=1e-6)


@pytest.mark.parametrize("temperature", [1e-4, 1e4])
def test_extreme_temperatures(graph: Graph, temperature: float) -> None:
    logits = graph.run(ROWS[:1], labels=[[5, 9, 17]], temperature=[temperature])
    wanted = probabilities(logits[0], None, temperature)
    np.testing.assert_allclose(graph.last[PROBABILITIES][0], wanted, atol=1e-6)


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("precision", ["fp32", "fp16", "int8"])
def test_a_bank_holds_its_rows_only(tied: bool, precision: Precision, tmp_path: Path) -> None:
    checkpoint = tiny(tmp_path, "qwen2", tied=tied, layers=1)
    whole = Graph(checkpoint, GraphOptions(precision=precision))
    bank = Graph(checkpoint, GraphOptions(precision=precision, labels=LabelBank(FEW)))
    asked = [[311, 5], [9], [5, 200, 9]]
    close = {"fp32": 1e-6, "fp16": 2e-3, "int8": 5e-2}[precision]
    np.testing.assert_allclose(
        bank.run(ROWS, labels=asked), whole.run(ROWS, labels=asked), atol=close
    )
    stored = {tensor.name for tensor in onnx.load_from_string(bank.model).graph.initializer}
    assert not any(name.startswith("lm_head.weight") for name in stored) or not tied
    assert {"lm_head.weight", "lm_head.weight.int8"} & stored == set()


def test_a_label_outside_the_bank_is_an_error(checkpoint: Checkpoint) -> None:
    bank = Graph(checkpoint, GraphOptions(labels=LabelBank(FEW)))
    with pytest.raises(Exception, match="out of data bounds"):
        bank.run(ROWS[:1], labels=[[5, 6]])


def test_fixed_labels_leave_no_inputs(checkpoint: Checkpoint, graph: Graph) -> None:
    prior = (0.5, -1.0, 0.0, 2.0)
    fixed = Graph(checkpoint, GraphOptions(labels=FixedLabels(FEW, prior, 0.7)))
    names = [value.name for value in fixed.session.get_inputs()]
    assert LABEL_IDS not in names
    found = fixed.run(ROWS)
    expected = graph.run(ROWS, labels=[FEW] * 3, prior=[prior] * 3, temperature=[0.7] * 3)
    np.testing.assert_allclose(found, expected, atol=1e-5)
    np.testing.assert_allclose(fixed.last[PROBABILITIES], graph.last[PROBABILITIES], atol=1e-5)
    plain = Graph(checkpoint, GraphOptions(labels=FixedLabels(FEW)))
    plain.run(ROWS)
    graph.run(ROWS, labels=[FEW] * 3)
    np.testing.assert_allclose(plain.last[PROBABILITIES], graph.last[PROBABILITIES], atol=1e-5)


@pytest.mark.parametrize("labels", [None, LabelBank(FEW), FixedLabels(FEW)])
def test_the_interface_is_that_of_the_graph(
    checkpoint: Checkpoint, labels: LabelBank | FixedLabels | None
) -> None:
    options = GraphOptions(labels=labels)
    graph = Graph(checkpoint, options)
    config = checkpoint.config
    for ports, values in (
        (inputs(config, options), graph.session.get_inputs()),
        (outputs(config, options), graph.session.get_outputs()),
    ):
        assert [p.name for p in ports] == [v.name for v in values]
        assert [list(p.shape) for p in ports] == [v.shape for v in values]
        kinds = {"float32": "tensor(float)", "int64": "tensor(int64)"}
        assert [kinds[p.dtype] for p in ports] == [v.type for v in values]


def test_bad_labels_are_refused(checkpoint: Checkpoint) -> None:
    for bad in ((), (1, 1), (-1, 2)):
        with pytest.raises(ExportError, match="different token ids"):
            LabelBank(bad)
        with pytest.raises(ExportError, match="different token ids"):
            FixedLabels(bad)
    with pytest.raises(ExportError, match="3 numbers for 2 labels"):
        FixedLabels((1, 2), (0.0, 0.0, 0.0))
    with pytest.raises(ExportError, match="finite"):
        FixedLabels((1, 2), (0.0, float("nan")))
    with pytest.raises(CardError):
        FixedLabels((1, 2), temperature=0.0)
    with pytest.raises(ExportError, match="outside the vocabulary"):
        build_model(checkpoint, GraphOptions(labels=LabelBank((1, 512))))
    with pytest.raises(ExportError, match="block must be one of"):
        GraphOptions(block=48)
