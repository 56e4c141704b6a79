"""A session over a graph: its past, its ways of running, what it refuses."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from readoff.engine.checkpoint import Checkpoint
from readoff.engine.errors import NumericsError
from readoff.export import session as sessions
from readoff.export.errors import PackError
from readoff.export.graph.model import build_model
from readoff.export.graph.options import FixedLabels, GraphOptions
from readoff.export.graph.save import save, to_bytes
from readoff.export.session import GraphSession, LabelRows, padded
from tests.export.graphs import Reference, ids, tiny

LABELS = tuple(range(3, 60))


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Checkpoint:
    return tiny(tmp_path_factory.mktemp("model"), "qwen3_5")


def session_of(checkpoint: Checkpoint, **options: Any) -> GraphSession:
    made = GraphOptions(**options)
    graph = to_bytes(build_model(checkpoint, made))
    return GraphSession(graph, checkpoint.config, made, threads=1, spin=False)


def row(tokens: list[int]) -> Any:
    return np.array([tokens], np.int64)


def test_a_past_continues_the_row_that_left_it(checkpoint: Checkpoint) -> None:
    session, labels = session_of(checkpoint), LabelRows.of([LABELS] * 2)
    states = [ids(65, 1), ids(9, 2)]
    first = session.run(padded(states, np.int64), [65, 9], labels=labels)
    for number, state in enumerate(states):
        past = session.continued(session.empty(), 0, first, number, len(state))
        middle, last = ids(20, 3), ids(7, 4)
        one = LabelRows.of([LABELS])
        found = session.run(row(middle), [20], [len(state)], past, one)
        after = session.continued(past, len(state), found, 0, 20)
        found = session.run(row(last), [7], [len(state) + 20], after, one)
        expected = Reference(checkpoint).logits([[state, middle, last]])
        assert np.abs(found.logits - expected).max() < 1e-4


def test_a_row_of_several_pasts_is_picked(checkpoint: Checkpoint) -> None:
    """Two rows with pasts of their own, of which the second is continued."""
    session, labels = session_of(checkpoint), LabelRows.of([LABELS] * 2)
    states, new = [ids(12, 5), ids(12, 6)], ids(3, 7)
    first = session.run(padded(states, np.int64), [12, 12], labels=labels)
    pasts = [session.continued(session.empty(), 0, first, n, 12) for n in range(2)]
    both = {name: np.concatenate([p[name] for p in pasts]) for name in pasts[0]}
    second = session.run(padded([new, new], np.int64), [3, 3], [12, 12], both, labels)
    past = session.continued(both, 12, second, 1, 3)
    found = session.run(row(new), [3], [15], past, LabelRows.of([LABELS]))
    expected = Reference(checkpoint).logits([[states[1], new, new]])
    assert np.abs(found.logits - expected).max() < 1e-4


def test_values_may_stay_on_the_device(checkpoint: Checkpoint) -> None:
    session, labels = session_of(checkpoint), LabelRows.of([LABELS])
    state, question = ids(70, 8), ids(5, 9)
    bound = session.run_on("cpu", row(state), [70], labels=labels)
    plain = session.run(row(state), [70], labels=labels)
    assert np.array_equal(bound.logits, plain.logits)
    past = {c.past.name: bound.new[c.new.name] for c in session.carried}
    found = session.run_on("cpu", row(question), [5], [70], past, labels)
    arrays = session.continued(session.empty(), 0, plain, 0, 70)
    expected = session.run(row(question), [5], [70], arrays, labels)
    assert np.array_equal(found.logits, expected.logits)
    assert not isinstance(found.new["new.0.state"], np.ndarray)


def test_label_rows_of_different_lengths() -> None:
    made = LabelRows.of([(5, 6, 7), (8,)], [(0.5, 0.0, 1.0), (2.0,)], [1.0, 3.0])
    assert made.ids.tolist() == [[5, 6, 7], [8, 0, 0]]
    assert made.counts.tolist() == [3, 1]
    assert made.prior.tolist() == [[0.5, 0.0, 1.0], [2.0, 0.0, 0.0]]
    assert made.temperature.dtype == made.prior.dtype == np.float32
    assert LabelRows.of([(1,)]).temperature.tolist() == [1.0]


def test_baked_labels_need_none(checkpoint: Checkpoint) -> None:
    session = session_of(checkpoint, labels=FixedLabels((5, 9), (0.25, 0.0), 2.0))
    found = session.run(row(ids(10, 1)), [10])
    shifted = (found.logits - [0.25, 0.0]) / 2.0
    share = np.exp(shifted) / np.exp(shifted).sum()
    np.testing.assert_allclose(found.probabilities, share, rtol=1e-5)
    with pytest.raises(ValueError, match="none were given"):
        session_of(checkpoint).run(row([1]), [1])


def test_logits_that_are_not_finite(checkpoint: Checkpoint) -> None:
    session = session_of(checkpoint)
    past = session.empty()
    past["past.0.state"][...] = np.nan
    with pytest.raises(NumericsError, match="finite"):
        session.run(row([1, 2]), [2], [0], past, LabelRows.of([LABELS]))


def test_a_graph_that_cannot_be_loaded(checkpoint: Checkpoint, tmp_path: Path) -> None:
    options = GraphOptions()
    with pytest.raises(PackError, match=r"can't load the graph: .* damaged, missing"):
        GraphSession(b"not a graph", checkpoint.config, options)
    path, data = save(build_model(checkpoint), tmp_path / "model.onnx")
    data.unlink()
    with pytest.raises(PackError, match="can't load"):
        GraphSession(path, checkpoint.config, options)


def test_a_graph_that_an_old_runtime_cannot_load(
    checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions.load_runtime(), "__version__", "1.14.2")
    with pytest.raises(PackError, match=r"1\.14\.2 can't .*needs 1\.15\.0 or newer: update"):
        GraphSession(b"not a graph", checkpoint.config, GraphOptions())


def test_a_provider_that_is_not_there_is_not_told_on_stdout(
    checkpoint: Checkpoint, capfd: pytest.CaptureFixture[str]
) -> None:
    """onnxruntime raises for it, as for broken CUDA libraries: the CPU takes over in silence."""
    graph = to_bytes(build_model(checkpoint, GraphOptions()))
    no_such = [("CPUExecutionProvider", {}), ("CPUExecutionProvider", 5)]
    session = GraphSession(graph, checkpoint.config, GraphOptions(), providers=no_such)
    assert session.session.get_providers() == [sessions.CPU]
    assert not session.session._enable_fallback
    with pytest.raises(PackError):
        GraphSession(b"", checkpoint.config, GraphOptions(), providers=no_such)
    assert capfd.readouterr().out == ""


@pytest.mark.parametrize(
    ("change", "options", "told"),
    [
        ({}, GraphOptions(precision="fp16"), r"input past\.\d\.key is tensor\(float\)"),
        ({}, GraphOptions(labels=FixedLabels((5, 9))), "has the input label_counts"),
        ({"linear_num_value_heads": 8}, GraphOptions(), r"input past\.0\.state is"),
        ({"layer_types": ("linear_attention",)}, GraphOptions(), r"has the input past\.1"),
        ({"layer_types": ("full_attention",) * 4}, GraphOptions(), r"lacks the input past\.0\.key"),
    ],
)
def test_a_graph_of_another_config(
    checkpoint: Checkpoint, change: dict[str, Any], options: GraphOptions, told: str
) -> None:
    graph = to_bytes(build_model(checkpoint, GraphOptions()))
    with pytest.raises(PackError, match=f"isn't one of this config.*{told}.*Export again"):
        GraphSession(graph, replace(checkpoint.config, **change), options)


def test_baked_labels_of_another_number(checkpoint: Checkpoint) -> None:
    graph = to_bytes(build_model(checkpoint, GraphOptions(labels=FixedLabels((5, 9)))))
    with pytest.raises(PackError, match="output logits is"):
        GraphSession(graph, checkpoint.config, GraphOptions(labels=FixedLabels((5, 9, 7))))


def test_no_runtime(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(PackError, match=r"readoff\[onnx\]"):
        sessions.load_runtime()


def test_no_torch_is_imported() -> None:
    code = (
        "import sys; import readoff.export.session\n"
        "assert not {'torch', 'transformers', 'onnx', 'onnx_ir'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
