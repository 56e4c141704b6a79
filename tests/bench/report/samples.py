"""A made-up run: every kind of workload, rung, confidence and opponent, with known numbers."""

from __future__ import annotations

import random
from typing import Any

from readoff.bench.records import Gate, RungReport, Speedup, Workload
from readoff.bench.report import targets
from readoff.bench.report.result import Result

TITLES = {
    "L0": "JSON, transformers.generate",
    "L1": "JSON, strong",
    "L1j": "JSON, strong, jumping",
    "L2t": "first-token readout, transformers",
    "L2": "readoff, whole head",
    "L3": "readoff, label rows",
    "L4": "readoff, state shared",
    "L5": "readoff, warm state",
    "L6": "readoff, batched callers",
}
SECONDS = {
    "L0": 3.1,
    "L1": 1.55,
    "L1j": 0.9,
    "L2t": 0.62,
    "L2": 0.44,
    "L3": 0.41,
    "L4": 0.4,
    "L5": 0.09,
    "L6": 0.35,
}
"""Seconds of the paper-shaped request."""

ABOUT = {
    "started": "2026-12-01T12:00:00+00:00",
    "commit": {"id": "0123456789abcdef", "dirty": False},
    "settings": {"model": "demo", "quick": True, "seed": 0, "repeats": 5, "rungs": list(TITLES)},
    "machine": {
        "processor": "A made-up processor <with 2 cores>",
        "device": "cpu",
        "dtype": "bfloat16",
        "threads": 2,
        "instruction_sets": ["avx2"],
        "versions": {"python": "3.11.9", "torch": "2.13.0"},
    },
}


def report(workload: str, name: str, scale: float = 1.0, repeats: int = 12) -> RungReport:
    """`name`'s numbers, with a little noise that depends on the names only."""
    noise = random.Random(f"{workload} {name}")
    base = SECONDS[name] * scale
    seconds = [base * noise.uniform(0.97, 1.06) for _ in range(repeats)]
    lower = list(TITLES)[list(TITLES).index(name) - 1] if name != "L0" else ""
    gate = None
    if name not in ("L0", "L1", "L1j", "L2t"):
        gate = Gate(against=lower, agreement=1.0, max_dp=0.004, bound=0.02, ok=True)
    speedups = {}
    for other in ("L0", "L1", "L1j", "L2t"):
        ratio = SECONDS[other] / SECONDS[name]
        speedups[other] = Speedup(ratio, ratio * 0.95, ratio * 1.04)
    return RungReport(
        name=name,
        workload=workload,
        seconds=seconds,
        decisions=repeats,
        tokens_computed=480 * repeats,
        tokens_generated=21 * repeats if name in ("L0", "L1", "L1j") else 0,
        failures=1 if name == "L0" else 0,
        gate=gate,
        speedups=speedups,
        bytes_moved=7.2e8 * repeats,
        flops=3.4e11 * repeats,
        peak_bytes=2**30,
    )


def result() -> Result:
    """A complete run."""
    made = Result(dict(ABOUT), ceilings={"bytes_per_s": 2.5e10, "flops_per_s": 1.1e12})
    for workload, scale in _workloads():
        made.add_workload(workload)
        for name, title in TITLES.items():
            if workload.kind == "search" and name in ("L0", "L1", "L1j", "L6"):
                continue
            documents = workload.axes.get("documents")
            step = SECONDS[name] * scale * 1e3 * (documents + 1) if documents else None
            model = {"tokens": 20.0, "token_ms": 125.0, "prefill_ms": 600.0, "ratio": 5.2}
            made.add_rung(
                report(workload.name, name, scale),
                title,
                step_ms=step,
                json_model=model if name in ("L0", "L1") else None,
            )
    made.quality = [quality(kind, rung) for kind, rung in KINDS]
    made.opponents = [opponent()]
    made.notes = ["L7 needs a GPU and was left out."]
    made.targets = targets.judge(made.document())
    made.seconds = 170.0
    made.complete = True
    return made


def document() -> dict[str, Any]:
    """Its document."""
    return result().document()


def _workloads() -> list[tuple[Workload, float]]:
    """(workload, how long its requests take)."""
    made = [(Workload("paper-en", "paper", "en", [], sizes(400, 1)), 1.0)]
    for state in (128, 512, 2048):
        for questions in (1, 8, 32):
            name = f"many-en-s{state}-q{questions}"
            scale = (state + 40 * questions) / 440
            made.append((Workload(name, "many", "en", [], sizes(state, questions)), scale))
    for documents in (5, 20):
        for first in (0.0, 1.0):
            name = f"search-en-d{documents}-{'question' if first else 'state'}-first"
            axes = {"documents": float(documents), "question_first": first}
            made.append((Workload(name, "search", "en", [], axes), 0.8))
    return made


def sizes(state: int, questions: int) -> dict[str, float]:
    """The axes of a workload of states and questions."""
    return {"state_tokens": state, "questions": questions, "question_tokens": 40}


KINDS = (("readout", "L4"), ("stated", "L0"), ("tokens", "L0"))


def quality(kind: str, rung: str) -> dict[str, Any]:
    """A row of quality, overconfident."""
    bins = [
        {
            "confidence": 0.1 + 0.2 * i,
            "accuracy": 0.05 + 0.17 * i,
            "count": 50,
            "expected_low": 0.02 + 0.18 * i,
            "expected_high": 0.2 + 0.19 * i,
        }
        for i in range(5)
    ]
    return {
        "workload": "banking77",
        "rung": rung,
        "kind": kind,
        "n": 250,
        "accuracy": 0.61,
        "nll": 1.1,
        "brier": 0.4,
        "ece": 0.11,
        "calibrated_ece": 0.03,
        "bins": bins,
    }


def opponent() -> dict[str, Any]:
    """A sweep over two levels."""
    level = {"p50_ms": 100.0, "p95_ms": 120.0, "p99_ms": 130.0, "decisions_per_s": 10.0}
    return {
        "url": "http://127.0.0.1:9",
        "kind": "openai",
        "model": "tiny",
        "workload": "paper-en",
        "levels": [
            {**level, "concurrency": n, "requests": 8, "failures": {"HTTP 500": 1}, "down": 0}
            for n in (1, 2)
        ],
    }
