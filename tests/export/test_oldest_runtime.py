"""Standard graphs in the oldest ONNX Runtime that is supported.

Runs where READOFF_OLD_ORT names a folder made by
`pip install --target FOLDER onnxruntime==1.19.2` (or 1.15.0 with "numpy<2").
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from readoff.export.graph import interface
from readoff.export.graph.model import build_model
from readoff.export.graph.options import OLDEST_RUNTIME, GraphOptions, Precision
from readoff.export.graph.save import save
from readoff.export.session import GraphSession, LabelRows, padded
from tests.export import oldest
from tests.export.graphs import ids, tiny
from tests.models import ARCHITECTURES, Architecture

OLD = os.environ.get("READOFF_OLD_ORT", "")

pytestmark = pytest.mark.skipif(not OLD, reason="READOFF_OLD_ORT names no old ONNX Runtime")


@pytest.mark.parametrize("precision", ["fp32", "fp16", "int8"])
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_the_same_numbers(architecture: Architecture, precision: Precision, tmp_path: Path) -> None:
    checkpoint = tiny(tmp_path / "model", architecture)
    options = GraphOptions(precision=precision)
    path, _ = save(build_model(checkpoint, options), tmp_path / "model.onnx")
    session = GraphSession(path, checkpoint.config, options, threads=1)
    state, rows = ids(70, 1), [ids(65, 2), ids(3, 3)]
    labels = LabelRows.of([tuple(range(3, 60))] * 2)
    one = LabelRows.of([(3, 4)])
    first = session.run(padded([state], np.int64), [70], labels=one)
    past = session.continued(session.empty(), 0, first, 0, 70)
    given: tuple[Any, ...] = (padded(rows, np.int64), [65, 3], [70], past, labels)
    expected = session.run(*given)
    feeds: dict[str, Any] = {
        interface.TOKENS: given[0],
        interface.LENGTHS: np.array([65, 3]),
        interface.PAST_LENGTHS: np.array([70]),
        interface.LABEL_IDS: labels.ids,
        interface.LABEL_COUNTS: labels.counts,
        interface.PRIOR: labels.prior,
        interface.TEMPERATURE: labels.temperature,
    }
    feeds |= past
    np.savez(tmp_path / "feeds.npz", **feeds)
    words = [sys.executable, "-I", oldest.__file__, OLD, path, tmp_path / "feeds.npz"]
    done = subprocess.run(
        [*map(str, words), str(tmp_path / "out.npz")], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    version = done.stdout.strip()
    assert version.split(".")[:2] >= OLDEST_RUNTIME.split(".")[:2]
    with np.load(tmp_path / "out.npz") as found:
        close = 1e-4 if precision == "fp32" else 0.02
        assert np.abs(found["logits"] - expected.logits).max() < close
        assert np.abs(found["probabilities"] - expected.probabilities).max() < close
