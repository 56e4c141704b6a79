"""The micro-benchmarks run, on small shapes and untimed, and cover every operator."""

from __future__ import annotations

import os
import subprocess
import sys

import torch

from readoff.bench.micro.cases import CASES, Shape
from readoff.bench.micro.micro_ops import PAIRS
from readoff.kernels.dispatch import OPS
from tests.imports import ROOT


def test_every_operator_has_a_case() -> None:
    """A new operator, or a new implementation of one, joins by itself or fails here."""
    assert set(CASES) == set(OPS)
    assert {op for op, _ in PAIRS} == set(OPS)
    assert len(PAIRS) > 2 * len(OPS) - 1


def test_pairs_are_counted_by_the_tree() -> None:
    """2 tokens, then two questions of 1: 3 pairs in the state, 2 + 2 for what follows it, own."""
    assert Shape(state=2, questions=2, question=1).pairs == 3 + 2 * (2 + 1)


def test_linear_needs_what_a_product_needs() -> None:
    case = CASES["linear"](Shape(), torch.bfloat16)
    assert case.flops == 2 * 720 * 1024 * 7168
    assert case.bytes == 2 * (720 * 1024 + 1024 * 7168 + 720 * 7168)


def test_the_benchmarks_run() -> None:
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "bench/micro", "-o", "python_files=micro_*.py"),
            *("-q", "--benchmark-disable", "-p", "no:cacheprovider"),
        ],
        cwd=ROOT,
        env={**os.environ, "READOFF_MICRO": "small"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-2000:]
    assert " passed" in done.stdout
    assert " failed" not in done.stdout
