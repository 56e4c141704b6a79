"""The suite's own safety nets: poisoned memory, and the box when real weights are missing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.imports import ROOT


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_uninitialised_tensors_are_nan(dtype: torch.dtype) -> None:
    made = torch.empty(3, 5, dtype=dtype)
    for tensor in (
        made,
        torch.empty_like(torch.zeros(3, 5, dtype=dtype)),
        torch.empty_strided((3, 5), (5, 1), dtype=dtype),
        torch.zeros(1, dtype=dtype).new_empty(3, 5),
    ):
        assert tensor.dtype == dtype
        assert tensor.shape == (3, 5)
        assert tensor.isnan().all()


def test_uninitialised_arrays_are_nan() -> None:
    assert np.isnan(np.empty((2, 3), dtype=np.float32)).all()
    assert np.isnan(np.empty_like(np.zeros(4))).all()


def test_leaves_that_want_gradients_can_still_be_made() -> None:
    leaf = torch.empty(2, requires_grad=True)
    assert leaf.requires_grad
    assert leaf.is_leaf


def test_the_meta_device_still_allocates_nothing() -> None:
    """A patched constructor that torch no longer recognises would ignore the context."""
    with torch.device("meta"):
        assert torch.empty(2).is_meta
        assert torch.empty_like(torch.empty(2)).is_meta


def run_suite(folder: Path, cache: Path) -> str:
    """The output of pytest on two tests of which one needs the real weights."""
    (folder / "conftest.py").write_text("from tests.conftest import *\n")
    (folder / "test_two.py").write_text(
        "def test_plain(): pass\ndef test_real(demo_checkpoint): assert demo_checkpoint.exists()\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-c", str(ROOT / "pyproject.toml"), str(folder)],
        cwd=ROOT,
        env={**os.environ, "READOFF_CACHE": str(cache)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_missing_weights_are_said_loudly_above_the_closing_line(tmp_path: Path) -> None:
    (tmp_path / "suite").mkdir()
    *above, closing = run_suite(tmp_path / "suite", tmp_path / "empty").strip().splitlines()
    assert "1 passed, 1 skipped" in closing
    box = "\n".join(above[-6:])
    assert "THE REAL MODEL WAS NOT TESTED" in box
    assert "1 test was skipped" in box
    assert "readoff fetch" in box
