"""The gated delta rule on a CPU against ONNX Runtime's operator and transformers' fallback.

`python -m readoff.bench.micro.delta_rule`: one layer of Qwen3.5-0.8B, 512 tokens, 16 heads of 128,
from a state of zeros to the outputs and the final state, gates and norms included. All contenders
alternate in one run, on the same number of threads, and with a heap that is kept warm as the engine
keeps it (which helps transformers most: it allocates most). Each is first compared with the
recurrence in fp64: under a red gate nothing is timed, and the exit status is 1. The last line of
stdout is one JSON document. onnxruntime, onnx and transformers are optional: what is missing is
told.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F

from readoff.bench.micro.onnx_delta_rule import onnx_delta_rule
from readoff.bench.report.commit import commit
from readoff.bench.timing import Times, alternate, ratio, timed
from readoff.engine.runtime import keep_heap
from readoff.kernels.dispatch import Site
from readoff.kernels.gated_delta import gated_delta
from readoff.kernels.gated_delta.reference import gated_delta as reference

AIMS = {"onnxruntime": 8.0, "transformers": 5.0}
"""How many times faster than each the operator is meant to be."""

BOUNDS = {"fp32": 1e-5, "bf16": 1.5e-2}
"""Largest error of outputs and states, as a share of the largest value, by the dtype of q, k, v."""

Run = Callable[[], tuple[torch.Tensor, torch.Tensor]]
"""Runs once: outputs [T, H, D] and the final state [H, D, D]."""


class RedGateError(RuntimeError):
    """A contender computes something else than the recurrence."""


@dataclass(frozen=True)
class Layer:
    """The operands of one layer, fp32; q, k, v as slices of one product, as in the model."""

    tokens: int
    heads: int
    dim: int

    def operands(self) -> tuple[torch.Tensor, ...]:
        """q, k, v [T, H, D], a, b [T, H], a_log, dt_bias [H]; gates as a trained layer has them."""
        torch.manual_seed(0)
        mixed = torch.randn(self.tokens, 3 * self.heads * self.dim)
        q, k, v = (x.unflatten(1, (self.heads, self.dim)) for x in mixed.chunk(3, dim=1))
        a, b = torch.randn(2, self.tokens, self.heads)
        a_log = torch.empty(self.heads).uniform_(1.0, 16.0).log()
        return q, k, v, a, b, a_log, torch.full((self.heads,), -4.0)


FULL, SMALL = Layer(512, 16, 128), Layer(70, 2, 16)


def contenders(x: tuple[torch.Tensor, ...]) -> tuple[dict[str, Run], dict[str, str]]:
    """What can run here, by name, and why the rest can't."""
    runs: dict[str, Run] = {"fp32": _ours(x, torch.float32), "bf16": _ours(x, torch.bfloat16)}
    missing: dict[str, str] = {}
    for name, make in (("onnxruntime", onnx_delta_rule), ("transformers", _transformers)):
        try:
            runs[name] = make(x)
        except Exception as error:  # whatever another package raises where it lacks the operator
            missing[name] = f"{type(error).__name__}: {str(error).strip() or 'no message'}"[:300]
    return runs, missing


def _segment(tokens: int) -> tuple[torch.Tensor, ...]:
    """One segment of all tokens, from slot 0 to slot 1."""
    return tuple(torch.tensor([n]) for n in (0, tokens, 0, 0, 1))


def _ours(x: tuple[torch.Tensor, ...], dtype: torch.dtype) -> Run:
    mixed = torch.cat([t.flatten(1) for t in x[:3]], dim=1).to(dtype)
    q, k, v = (t.unflatten(1, x[0].shape[1:]) for t in mixed.chunk(3, dim=1))
    a, b = x[3].to(dtype), x[4].to(dtype)
    tokens, heads, dim = q.shape
    states = torch.zeros(2, heads, dim, dim)
    segment = _segment(tokens)

    def run() -> tuple[torch.Tensor, torch.Tensor]:
        out = gated_delta(q, k, v, a, b, *x[5:], states, *segment)
        return out, states[1]

    return run


def _transformers(x: tuple[torch.Tensor, ...]) -> Run:
    from transformers.models.qwen3_5 import modeling_qwen3_5 as modeling

    q, k, v, a, b, a_log, dt_bias = x
    q, k, v = (t[None] for t in (q, k, v))

    def run() -> tuple[torch.Tensor, torch.Tensor]:
        g = -a_log.exp() * F.softplus(a + dt_bias)
        out, state = modeling.torch_chunk_gated_delta_rule(
            q,
            k,
            v,
            g=g[None],
            beta=b.sigmoid()[None],
            initial_state=None,
            output_final_state=True,
            use_qk_l2norm_in_kernel=True,
        )
        return out[0], state[0]

    return run


def gate(x: tuple[torch.Tensor, ...], runs: Mapping[str, Run]) -> dict[str, float]:
    """Each contender's largest relative error. RedGateError where one is beyond its bound."""
    tokens, heads, dim = x[0].shape
    wanted = {}
    for dtype in (torch.float32, torch.bfloat16):
        given: list[Any] = [t.to(dtype if n < 5 else t.dtype).double() for n, t in enumerate(x)]
        states = torch.zeros(2, heads, dim, dim, dtype=torch.float64)
        out = reference(*[*given, states, *_segment(tokens)])
        wanted["bf16" if dtype == torch.bfloat16 else "fp32"] = (out, states[1])
    errors = {}
    for name, run in runs.items():
        kind = name if name in wanted else "fp32"
        found = run()
        each = [_error(f, w) for f, w in zip(found, wanted[kind], strict=True)]
        # Of torch, since the largest of what holds NaN is NaN there.
        errors[name] = torch.tensor(each, dtype=torch.float64).max().item()
        if not errors[name] <= BOUNDS[kind]:
            raise RedGateError(
                f"{name} is {errors[name]:.2g} away from the recurrence, more than "
                f"{BOUNDS[kind]:.2g}; nothing was timed."
            )
    return errors


def _error(found: torch.Tensor, wanted: torch.Tensor) -> float:
    return float((found.double() - wanted).abs().max() / wanted.abs().max())


def document(layer: Layer, repeats: int) -> dict[str, Any]:
    """Everything measured, and with what."""
    keep_heap()
    x = layer.operands()
    with torch.inference_mode():
        runs, missing = contenders(x)
        errors = gate(x, runs)
        timers = {name: _timer(run) for name, run in runs.items()}
        times = alternate(timers, repeats, warmups=2)
    return {
        "benchmark": "delta_rule",
        "tokens": layer.tokens,
        "heads": layer.heads,
        "dim": layer.dim,
        "threads": torch.get_num_threads(),
        "commit": commit(),
        "versions": _versions("torch", "onnxruntime", "transformers"),
        "implementation": gated_delta.choose(Site("cpu", torch.float32)).name,
        "repeats": repeats,
        "errors": errors,
        "missing": missing,
        "times": {
            name: {"p50_ms": 1e3 * t.median, "p95_ms": 1e3 * t.p95} for name, t in times.items()
        },
        "ratios": _ratios(times),
    }


def _timer(run: Run) -> Callable[[], float]:
    return lambda: timed(run)


def _ratios(times: Mapping[str, Times]) -> list[dict[str, Any]]:
    return [
        {
            "slow": other,
            "fast": ours,
            "ratio": round(ratio(times[other], times[ours]), 2),
            "aim": aim,
        }
        for other, aim in AIMS.items()
        if other in times
        for ours in ("fp32", "bf16")
    ]


def _versions(*packages: str) -> dict[str, str]:
    found = {}
    for package in packages:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def table(told: Mapping[str, Any]) -> str:
    """The same for people."""
    lines = [f"{told['tokens']} tokens x {told['heads']} heads x {told['dim']}"]
    lines += [
        f"{name:14} {t['p50_ms']:9.2f} ms (p95 {t['p95_ms']:.2f})   "
        f"error {told['errors'][name]:.1e}"
        for name, t in told["times"].items()
    ]
    lines += [
        f"{row['fast']} is {row['ratio']:.1f} times faster than {row['slow']} "
        f"(aim {row['aim']:.0f})"
        for row in told["ratios"]
    ]
    lines += [f"{name} could not run: {reason}" for name, reason in told["missing"].items()]
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(
        prog="python -m readoff.bench.micro.delta_rule",
        description="The gated delta rule against ONNX Runtime and transformers, on the CPU.",
    )
    parser.add_argument("--json", action="store_true", help="print the JSON document only")
    parser.add_argument("--small", action="store_true", help="a tiny layer, to see that it runs")
    parser.add_argument("--repeats", type=int, default=15)
    asked = parser.parse_args(arguments)
    if asked.repeats < 1:
        parser.error("--repeats must be at least 1")
    try:
        told = document(SMALL if asked.small else FULL, asked.repeats)
    except RedGateError as error:
        print(f"Red gate: {error}", file=sys.stderr)
        print(json.dumps({"benchmark": "delta_rule", "gate": "red", "reason": str(error)}))
        return 1
    if not asked.json:
        print(table(told))
    print(json.dumps(told))
    return 0


if __name__ == "__main__":
    sys.exit(main())
