"""pytest-benchmark's view of `cases.py`: one benchmark for each operator and implementation.

`READOFF_MICRO=small` shrinks the shapes, for a test of the benchmarks themselves.
"""

from __future__ import annotations

import importlib
import os
import pkgutil
from typing import Any, Protocol

import pytest
import torch

import readoff.kernels
from readoff.bench.micro.cases import CASES, Shape
from readoff.kernels.dispatch import OPS, Site

for _folder in pkgutil.iter_modules(readoff.kernels.__path__):
    if _folder.ispkg:
        importlib.import_module(f"readoff.kernels.{_folder.name}")

SMALL = Shape(state=20, questions=2, question=5, scale=16)
DTYPES = {"bf16": torch.bfloat16, "fp32": torch.float32}
PAIRS = [(op.name, name) for op in OPS.values() for name in op.implementations]


LAYOUTS = {"onednn": "packed", "int8": "int8", "tiled": "packed"}
"""How implementations of linear layers want their weight."""


class Benchmark(Protocol):
    """The part of pytest-benchmark's fixture that is used here."""

    extra_info: dict[str, Any]
    group: str
    stats: Any

    def __call__(self, function: Any, *args: Any) -> Any:
        """Time `function(*args)`."""


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("op", "implementation"), PAIRS, ids=["-".join(p) for p in PAIRS])
def test_op(benchmark: Benchmark, op: str, implementation: str, dtype: str) -> None:
    """Times one implementation; `extra_info` has bytes, FLOPs, and what was reached of both."""
    assert op in CASES, f"bench/micro/cases.py has no case for the operator {op}"
    torch.manual_seed(0)
    shape = SMALL if os.environ.get("READOFF_MICRO") == "small" else Shape()
    case = CASES[op](shape, DTYPES[dtype])
    arguments = case.arguments
    layout = LAYOUTS.get(implementation, "plain") if op == "linear" else "plain"
    if layout != "plain":
        arguments = (arguments[0], _stored(arguments[1], layout), arguments[2])
    chosen = OPS[op].implementations[implementation]
    by_name = implementation != "triton"  # the interpreter's time says nothing
    served, why = chosen.verdict(Site("cpu", DTYPES[dtype], layout=layout), by_name)
    if not served:
        pytest.skip(f"{implementation}: {why}")
    benchmark.group = f"{op} {dtype}"
    with torch.inference_mode():
        benchmark(chosen.function, *arguments)
    benchmark.extra_info |= {
        "op": op,
        "implementation": implementation,
        "dtype": dtype,
        "tokens": shape.tokens,
        "bytes": case.bytes,
        "flops": case.flops,
    }
    if benchmark.stats is not None:  # None where timing is switched off
        seconds = benchmark.stats.stats.median
        benchmark.extra_info |= {
            "gb_per_s": case.bytes / seconds / 1e9,
            "gflop_per_s": case.flops / seconds / 1e9,
        }


def _stored(weight: torch.Tensor, layout: str) -> Any:
    from readoff.kernels.linear import pack, quantise

    if layout == "int8":
        return pack(quantise(weight, "int8"))
    made = pack(weight)
    if not made.is_mkldnn:
        pytest.skip("this processor packs no weights of that dtype")
    return made
