"""The delta rule in an exported graph: chunks of ordinary products against ONNX Runtime's operator.

`python -m readoff.bench.micro.onnx_delta`: one layer of Qwen3.5-0.8B, 512 tokens, 16 heads of 128,
from what the convolution left to the outputs and the final state, norms included, gates not. The
two alternate in one run with the same number of threads. Each is first compared with the recurrence
in fp64, on random keys and on equal ones: under a red gate nothing is timed, and the exit status
is 1. The last line of stdout is one JSON document.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir
import torch
import torch.nn.functional as F
from numpy.typing import NDArray

from readoff.bench.micro.delta_rule import RedGateError
from readoff.bench.report.commit import commit
from readoff.bench.seeded import QWEN35_08B
from readoff.bench.timing import alternate, ratio, timed
from readoff.engine.config import ModelConfig
from readoff.export.graph.builder import CONTRIB, Builder
from readoff.export.graph.delta_rule import make_delta_rule
from readoff.export.graph.gated_deltanet import make_contrib_delta_rule
from readoff.export.graph.options import IR_VERSION, OPSET
from readoff.export.session import load_runtime
from readoff.kernels.gated_delta.reference import gated_delta

Array = NDArray[Any]
Feeds = Mapping[str, Array]

AIM = 3.0
"""How many times faster than the operator the chunks are meant to be."""
BOUND = 1e-5
"""Largest error of outputs and state, as a share of the largest value."""
STEP_BIAS = -4.0
"""Of the time step: gates as a trained layer has them."""


@dataclass(frozen=True)
class Operands:
    """`mixed` [T, 3 H D] (q, k, v), `a` and `b` [T, H], `a_log` [H]: a layer's, fp32."""

    mixed: torch.Tensor
    a: torch.Tensor
    b: torch.Tensor
    a_log: torch.Tensor

    @classmethod
    def made(cls, config: ModelConfig, tokens: int, equal_keys: bool = False) -> Operands:
        """Seeded. `equal_keys`: a run of one repeated token, written with β near 0.95."""
        generator = torch.Generator().manual_seed(0)
        heads, dim = config.linear_num_value_heads, config.linear_value_head_dim
        mixed = torch.randn(tokens, 3 * heads * dim, generator=generator)
        a, b = torch.randn(2, tokens, heads, generator=generator)
        a_log = torch.empty(heads).uniform_(1.0, 16.0, generator=generator).log()
        if equal_keys:
            mixed, b = mixed[:1].expand(tokens, -1).contiguous(), torch.full_like(b, 3.0)
        return cls(mixed, a, b, a_log)

    def feeds(self, config: ModelConfig) -> dict[str, Array]:
        """The graph's inputs, from a state of zeros."""
        decay = -self.a_log.exp() * F.softplus(self.a + STEP_BIAS)
        heads, dim = config.linear_num_value_heads, config.linear_value_head_dim
        return {
            "mixed": self.mixed[None].numpy(),
            "decay": decay[None].numpy(),
            "strength": self.b.sigmoid()[None].numpy(),
            "state": np.zeros((1, heads, dim, dim), np.float32),
            "time": np.array([len(self.mixed)]),
        }

    def recurrence(self, config: ModelConfig) -> tuple[Array, Array]:
        """Outputs [T, H, D] and state [H, D, D] token by token in fp64."""
        heads, dim = config.linear_num_value_heads, config.linear_value_head_dim
        q, k, v = (x.unflatten(1, (heads, dim)).double() for x in self.mixed.chunk(3, dim=1))
        states = torch.zeros(2, heads, dim, dim, dtype=torch.float64)
        segment: list[Any] = [torch.tensor([n]) for n in (0, len(self.mixed), 0, 0, 1)]
        gates = (self.a.double(), self.b.double(), self.a_log, torch.full((heads,), STEP_BIAS))
        out = gated_delta(q, k, v, *gates, states, *segment)
        return out.numpy(), states[1].numpy()


class Contender:
    """One form of the operator as a graph of its own, in a session with `threads` threads."""

    def __init__(self, config: ModelConfig, contrib: bool, threads: int) -> None:
        runtime = load_runtime()
        settings = runtime.SessionOptions()
        settings.intra_op_num_threads = threads
        # Threads that wait busily would steal time from whoever is timed next.
        settings.add_session_config_entry("session.force_spinning_stop", "1")
        model = ir.to_proto(graph(config, contrib)).SerializeToString()
        self.session = runtime.InferenceSession(model, settings, providers=["CPUExecutionProvider"])
        self.names = {value.name for value in self.session.get_inputs()}

    def __call__(self, feeds: Feeds) -> tuple[Array, Array]:
        """Outputs [T, H, D] and the final state [H, D, D]."""
        used = {name: value for name, value in feeds.items() if name in self.names}
        out, state = self.session.run(["out", "after"], used)
        return out[0], state[0]

    def timer(self, feeds: Feeds) -> Callable[[], float]:
        """A run that returns its seconds."""
        return lambda: timed(lambda: self(feeds))


def graph(config: ModelConfig, contrib: bool) -> ir.Model:
    """What a layer's graph has between its convolution and its output norm."""
    heads, dim = config.linear_num_value_heads, config.linear_value_head_dim
    shapes: dict[str, tuple[int | str, ...]] = {
        "mixed": ("B", "T", 3 * heads * dim),
        "decay": ("B", "T", heads),
        "strength": ("B", "T", heads),
        "state": ("B", heads, dim, dim),
    }
    given = {name: _value(name, shape) for name, shape in shapes.items()}
    b = Builder("delta_rule")
    if contrib:
        out = make_contrib_delta_rule(b, config, new="after", **given)
    else:
        given["time"] = _value("time", (1,), ir.DataType.INT64)
        out = make_delta_rule(b, config, new="after", **given)
    b.op("Identity", out, output="out")
    made = {value.name: value for node in b.nodes for value in node.outputs}
    outputs = [made["out"], made["after"]]
    for value in outputs:
        value.type = ir.TensorType(ir.DataType.FLOAT)
    imports = {"": OPSET} | ({CONTRIB: 1} if contrib else {})
    return ir.Model(
        ir.Graph(
            list(given.values()),
            outputs,
            nodes=b.nodes,
            initializers=list(b.weights.values()),
            opset_imports=imports,
            name="delta_rule",
        ),
        ir_version=IR_VERSION,
    )


def _value(
    name: str, shape: tuple[int | str, ...], dtype: ir.DataType = ir.DataType.FLOAT
) -> ir.Value:
    return ir.Value(name=name, shape=ir.Shape(shape), type=ir.TensorType(dtype))


def contenders(config: ModelConfig, threads: int) -> tuple[dict[str, Contender], dict[str, str]]:
    """The forms that the installed runtime has, and why it lacks the other."""
    found = {"chunks": Contender(config, False, threads)}
    try:
        return found | {"operator": Contender(config, True, threads)}, {}
    except Exception as error:  # ONNX Runtime's own, where it is too old to have the operator
        return found, {"operator": f"{type(error).__name__}: {str(error).strip()}"[:300]}


def gate(config: ModelConfig, tokens: int, runs: Mapping[str, Contender]) -> dict[str, float]:
    """Each one's largest relative error. RedGateError where one is beyond the bound."""
    errors = dict.fromkeys(runs, 0.0)
    for equal_keys in (False, True):
        operands = Operands.made(config, tokens, equal_keys)
        wanted, feeds = operands.recurrence(config), operands.feeds(config)
        for name, run in runs.items():
            for found, right in zip(run(feeds), wanted, strict=True):
                error = float(np.abs(found - right).max() / np.abs(right).max())
                errors[name] = max(errors[name], error)
                if not error <= BOUND:
                    keys = "equal" if equal_keys else "random"
                    raise RedGateError(
                        f"with {keys} keys {name} is {error:.2g} away from the recurrence, more "
                        f"than {BOUND:.2g}; nothing was timed."
                    )
    return errors


def document(config: ModelConfig, tokens: int, repeats: int) -> dict[str, Any]:
    """Everything measured, and with what."""
    threads = torch.get_num_threads()
    runs, missing = contenders(config, threads)
    errors = gate(config, tokens, runs)
    feeds = Operands.made(config, tokens).feeds(config)
    times = alternate({name: run.timer(feeds) for name, run in runs.items()}, repeats, warmups=2)
    told: dict[str, Any] = {
        "benchmark": "onnx_delta",
        "tokens": tokens,
        "heads": config.linear_num_value_heads,
        "dim": config.linear_value_head_dim,
        "threads": threads,
        "commit": commit(),
        "onnxruntime": importlib.metadata.version("onnxruntime"),
        "repeats": repeats,
        "errors": errors,
        "missing": missing,
        "times": {
            name: {"p50_ms": 1e3 * t.median, "p95_ms": 1e3 * t.p95} for name, t in times.items()
        },
        "aim": AIM,
    }
    if not missing:
        told["ratio"] = round(ratio(times["operator"], times["chunks"]), 2)
    return told


def table(told: Mapping[str, Any]) -> str:
    """The same for people."""
    lines = [f"{told['tokens']} tokens x {told['heads']} heads x {told['dim']}"]
    lines += [
        f"{name:10} {t['p50_ms']:9.2f} ms (p95 {t['p95_ms']:.2f})   "
        f"error {told['errors'][name]:.1e}"
        for name, t in told["times"].items()
    ]
    if "ratio" in told:
        lines.append(f"chunks are {told['ratio']:.1f} times faster (aim {told['aim']:.0f})")
    return "\n".join(lines + [f"{n} could not run: {why}" for n, why in told["missing"].items()])


def main(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(
        prog="python -m readoff.bench.micro.onnx_delta",
        description="The delta rule of exported graphs, both forms, on the CPU.",
    )
    parser.add_argument("--json", action="store_true", help="print the JSON document only")
    parser.add_argument("--tokens", type=int, default=512)
    parser.add_argument("--repeats", type=int, default=15)
    asked = parser.parse_args(arguments)
    if min(asked.repeats, asked.tokens) < 1:
        parser.error("--repeats and --tokens must be at least 1")
    try:
        told = document(QWEN35_08B, asked.tokens, asked.repeats)
    except RedGateError as error:
        print(f"Red gate: {error}", file=sys.stderr)
        print(json.dumps({"benchmark": "onnx_delta", "gate": "red", "reason": str(error)}))
        return 1
    if not asked.json:
        print(table(told))
    print(json.dumps(told))
    return 0


if __name__ == "__main__":
    sys.exit(main())
