"""`Session`: gate, ceilings, then model by model what there is to measure."""

from __future__ import annotations

import gc
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch

from readoff.bench.gpu import ceilings, gate, head, json_loop, speeds
from readoff.bench.gpu.cases import LABELS, QUESTIONS, Case, Cases
from readoff.bench.gpu.clock import Budget, BudgetError, Clock
from readoff.bench.gpu.document import line, say
from readoff.bench.gpu.gate import Check, Way
from readoff.bench.gpu.models import Shape, load
from readoff.bench.gpu.runner import Runner
from readoff.engine.backbones.decoder import Backbone
from readoff.engine.backbones.linear import Linear
from readoff.engine.batch import Readout

WARMUP_SECONDS = 90.0


class RedGateError(Exception):
    """A kernel or the captured forward is wrong: no speed is told."""


class Session:
    """Fills `document` part by part, and keeps it in `out` as it grows."""

    def __init__(
        self,
        document: dict[str, Any],
        budget: Budget,
        device: torch.device,
        shapes: list[Shape],
        out: Path | None,
    ) -> None:
        self.document, self.budget, self.device = document, budget, device
        self.shapes, self.out = shapes, out
        self.clock = Clock(device, budget)
        self.cuda = device.type == "cuda"
        self.dtype = torch.bfloat16 if self.cuda else torch.float32
        self.ceilings: dict[str, Any] = {}

    def run(self, gate_only: bool = False) -> None:
        """Raises RedGateError, BudgetError."""
        for shape in self.shapes:
            self.gate(shape)
            self._free()
        if gate_only:
            return
        trial = {} if self.cuda else {"size": 512, "copy": 1 << 24}
        self.ceilings = ceilings.measure(self.clock, self.dtype, **trial)
        self.document["ceilings"] = self.ceilings
        self.save()
        for shape in self.shapes:
            self.measure(shape)

    def gate(self, shape: Shape) -> None:
        """Kernels in fp32 and in the dtype of the run, then the forward. fp32 for the first model
        only: compiling everything once more for each of the others would take minutes."""
        self.budget.check()
        say(f"{shape.name}: gate")
        told = self._model(shape)
        checks: list[Check] = []
        cases = Cases(shape.config.vocab_size, shape.scale)
        batch = cases.gate()
        first = shape is self.shapes[0]
        for dtype in dict.fromkeys((torch.float32, self.dtype) if first else (self.dtype,)):
            backbone = load(shape.config, dtype, self.device)
            checks += gate.kernels(backbone, batch)
            self._judge(told, checks)
        warm, passes = cases.warm(QUESTIONS), json_loop.written(cases, cases.size(512))
        assert warm.cold is not None
        runner = Runner(backbone, cases, [warm])
        told["gate_warmup"] = runner.warmup(WARMUP_SECONDS)

        def written() -> Readout:
            with runner.padded():
                return [runner.warm.run(step) for step in passes][-1]

        ways = [
            Way("eager", batch, lambda: runner.eager_cold.run(batch)),
            Way("captured", batch, lambda: self._answers(runner, Case("gate", (batch,)))[0]),
            Way("warm, eager", warm.cold, lambda: self._answers(runner, warm, False)[0]),
            Way("warm, captured", warm.cold, lambda: self._answers(runner, warm)[0]),
            Way("token by token, captured", cases.whole(passes), written),
        ]
        checks += gate.forward(shape, runner, ways, first)
        checks += gate.captured(runner, batch)
        self._judge(told, checks)

    def measure(self, shape: Shape) -> None:
        """All speeds of one model."""
        say(f"{shape.name}: speeds")
        told = self._model(shape)
        cases = Cases(shape.config.vocab_size, shape.scale)
        measured = cases.all()
        backbone = load(shape.config, self.dtype, self.device)
        answers = self._plain(told, backbone, cases, measured)
        self._free()
        self._part(told, "fp8", lambda: self._fp8(backbone, cases, measured, answers))
        self._free()

    def _plain(
        self, told: dict[str, Any], backbone: Backbone, cases: Cases, measured: list[Case]
    ) -> list[list[Readout]]:
        """Everything but FP8; returns the answers to all cases."""
        runner = Runner(backbone, cases, measured)
        say("warm-up")
        told["warmup"] = runner.warmup(WARMUP_SECONDS)
        size = float(backbone.embedding.element_size())
        told["cases"] = []
        self._cases(told["cases"], runner, measured, size)
        self._part(told, "json", lambda: json_loop.measure(runner, self.clock))
        self._part(told, "head", lambda: head.measure(backbone, self.clock))
        for case in (measured[0], measured[3]):
            name = f"profile, {case.name}"
            self._part(told, name, partial(speeds.launches, runner, case))
        told["explain"] = {"cold": runner.cold.explain(), "warm": runner.warm.explain()}
        return [self._answers(runner, case) for case in measured]

    def save(self) -> None:
        """The document as it is now."""
        if self.out is not None:
            self.out.write_text(json.dumps(self.document, indent=1), encoding="utf-8")

    def _cases(
        self, found: list[dict[str, Any]], runner: Runner, measured: list[Case], size: float
    ) -> None:
        for case in measured:
            found.append(
                speeds.measure(runner, self.clock, case, self.ceilings, size, eager=size > 1.5)
            )
            say(line(found[-1]))
            self.save()

    def _answers(self, runner: Runner, case: Case, captured: bool = True) -> list[Readout]:
        runner.fill(case)
        return runner.run(case, captured)

    def _fp8(
        self, backbone: Backbone, cases: Cases, measured: list[Case], answers: list[list[Readout]]
    ) -> dict[str, Any]:
        """The same weights in e4m3, gated against the answers in bf16."""
        if not self.cuda or self.ceilings.get("fp8_flops_per_s") is None:
            return {"problem": "not available: this device has no fp8 products"}
        for module in backbone.modules():
            if isinstance(module, Linear):
                module.quantise("fp8")
        runner = Runner(backbone, cases, measured)
        told: dict[str, Any] = {"warmup": runner.warmup(WARMUP_SECONDS)}
        checks: list[Check] = []
        for case, wanted in zip(measured, answers, strict=True):
            labels = LABELS if len(case.passes) == 1 else 2
            checks += gate.fp8(self._answers(runner, case), wanted, labels)
        told["gate"] = [check.told() for check in checks]
        if not all(check.ok for check in checks):
            told["problem"] = "withheld: FP8 is further from bf16 than allowed"
            return told
        told["cases"] = []
        self._cases(told["cases"], runner, measured, 1.0)
        return told

    def _part(self, told: dict[str, Any], name: str, run: Callable[[], Any]) -> None:
        """One part; what goes wrong in it is told, and doesn't keep the others from running."""
        self.budget.check()
        say(name)
        try:
            told[name] = run()
        except BudgetError:
            raise
        except Exception as error:
            told[name] = {"problem": f"{type(error).__name__}: {error}"}
            self.document["problems"].append(f"{name}: {type(error).__name__}: {error}")
            say(f"{name}: {error}")
        self.save()

    def _model(self, shape: Shape) -> dict[str, Any]:
        found: dict[str, Any] = self.document["models"].setdefault(shape.name, {})
        return found

    def _judge(self, told: dict[str, Any], checks: list[Check]) -> None:
        told["gate"] = [check.told() for check in checks]
        self.save()
        red = [check for check in checks if not check.ok]
        for check in red:
            say(f"RED {check.name}: {check.value:.3g} over {check.bound:.3g} ({check.note})")
        if red:
            raise RedGateError(f"Red gate: {len(red)} of {len(checks)} checks. No speed is told.")

    def _free(self) -> None:
        gc.collect()
        if self.cuda:
            torch.cuda.empty_cache()
