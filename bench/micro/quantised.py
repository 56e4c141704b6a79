"""What 8-bit linear layers change in the answers, and what they gain in time, against bf16.

    python -m readoff.bench.micro.quantised                        the demonstration model
    python -m readoff.bench.micro.quantised --data decisions.jsonl   your own decisions too

Answers are compared first: how often the most probable option is the same, and how far
probabilities move. A kind that this machine can't multiply is emulated: its quantised numbers,
multiplied in fp32; that is told, and never timed. Then one forward pass of the shape of
Qwen3.5-0.8B (seeded weights) is timed, both in turn. A kind whose gate is red isn't timed, and the
run ends with status 1 unless that kind was emulated. The last line of stdout is one JSON document.
"""

from __future__ import annotations

import copy
import json
import platform
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import torch
import typer

from readoff.bench.forward import chains
from readoff.bench.quality.files import names_of
from readoff.bench.quality.jsonl import read_jsonl
from readoff.bench.records import Workload
from readoff.bench.seeded import QWEN35_08B, SeededCheckpoint
from readoff.bench.timing import alternate, ratio, timed
from readoff.bench.workloads.plan import workloads
from readoff.engine.answers import Answer, NoulAnswer
from readoff.engine.backbones.decoder import Backbone
from readoff.engine.backbones.linear import Linear
from readoff.engine.checkpoint import Checkpoint
from readoff.engine.compute import on_compute_thread
from readoff.engine.config import ModelConfig
from readoff.engine.engine import Engine
from readoff.engine.errors import ReadoffError
from readoff.engine.loading import (
    check_quantisation,
    find_card,
    load_backbone,
    load_renderer,
    quantise_linears,
)
from readoff.engine.runtime import keep_heap
from readoff.engine.source import resolve
from readoff.kernels.linear import Kind, linear

KINDS: tuple[Kind, ...] = ("int8", "fp8")
CPU = torch.device("cpu")
DTYPE = torch.bfloat16
QUESTION = 40
"""Tokens of the question in the timed pass; the rest is the state."""

AGREEMENT, MEAN = 0.95, 0.03
"""The gate: the share of questions with the same answer at least, the mean |Δp| at most."""
AIM = 1.3
"""How many times faster than bf16 a pass with int8 should be where the processor has VNNI."""

Probabilities = Sequence[Mapping[str, float]]
"""By option, one a question."""


@dataclass(frozen=True)
class Drift:
    """How far the answers of a workload moved.

    |Δp| of a question is the largest over its options; mean, 99th percentile and maximum are over
    questions. `near` counts the changed answers whose two options bf16 held within
    2·p99 of one another.
    """

    kind: str
    workload: str
    emulated: bool
    questions: int
    agreement: float
    near: int
    mean: float
    p99: float
    largest: float

    @property
    def ok(self) -> bool:
        """Whether it is within the gate's bounds."""
        return self.agreement >= AGREEMENT and self.mean <= MEAN


def drift(
    kind: str, workload: str, emulated: bool, before: Probabilities, after: Probabilities
) -> Drift:
    """Compare the answers `after` with those `before`, question by question."""
    moved, changed, gaps = [], 0, []
    for old, new in zip(before, after, strict=True):
        moved.append(max(abs(p - new[option]) for option, p in old.items()))
        was, became = max(old, key=old.__getitem__), max(new, key=new.__getitem__)
        if was != became:
            changed += 1
            gaps.append(old[was] - old[became])
    p99 = float(np.quantile(moved, 0.99))
    return Drift(
        kind=kind,
        workload=workload,
        emulated=emulated,
        questions=len(moved),
        agreement=1.0 - changed / len(moved),
        near=sum(gap <= 2 * p99 for gap in gaps),
        mean=float(np.mean(moved)),
        p99=p99,
        largest=float(np.max(moved)),
    )


def probabilities(answer: Answer) -> Mapping[str, float]:
    """By option."""
    if isinstance(answer, NoulAnswer):
        return {"true": answer.noul, "false": 1.0 - answer.noul}
    return answer.probabilities


class Answers:
    """The answers of one checkpoint to some workloads, in bf16 and in 8 bits."""

    def __init__(self, checkpoint: Checkpoint, asked: Sequence[Workload]) -> None:
        self.checkpoint, self.asked = checkpoint, asked
        self.card = find_card(checkpoint)
        self.renderer = load_renderer(checkpoint, self.card)
        self.exact = self.given(None)

    def given(self, kind: Kind | None) -> list[Probabilities]:
        """Of every workload. Weights are dropped afterwards."""
        load = partial(load_backbone, self.checkpoint, DTYPE, CPU, kind)
        engine = Engine(on_compute_thread(load), self.renderer, self.card)
        return [
            [
                probabilities(answer)
                for ask in workload.asks
                for answer in engine.decide(ask.state, ask.questions).values()
            ]
            for workload in self.asked
        ]

    def drifts(self, kind: Kind) -> list[Drift]:
        """One a workload, and one of all questions where there are several workloads."""
        emulated = not multiplied_here(kind)
        with linear.use("reference") if emulated else nullcontext():
            found = self.given(kind)
        names = [workload.name for workload in self.asked]
        rows = [
            drift(kind, name, emulated, before, after)
            for name, before, after in zip(names, self.exact, found, strict=True)
        ]
        if len(rows) > 1:
            every = [[p for part in parts for p in part] for parts in (self.exact, found)]
            rows.append(drift(kind, "all", emulated, *every))
        return rows


def multiplied_here(kind: Kind) -> bool:
    """Whether this machine multiplies such weights."""
    try:
        check_quantisation(kind, DTYPE, CPU)
    except ReadoffError:
        return False
    return True


def speed(config: ModelConfig, tokens: int, kinds: Sequence[Kind], repeats: int) -> dict[str, Any]:
    """Milliseconds of a pass over a state and a question of `tokens` together, bf16 and 8 bits."""
    plain = Backbone.load(config, SeededCheckpoint(config), DTYPE, CPU)
    models: dict[str, Backbone] = {}
    for kind in kinds:
        models[kind] = copy.deepcopy(plain)
        quantise_linears(models[kind], kind, pack=True)
    for module in plain.modules():
        if isinstance(module, Linear):
            module.pack()
    models["bf16"] = plain
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(0, min(config.vocab_size, 100_000), (tokens,), generator=generator).tolist()
    batch = chains([[tuple(ids[:-QUESTION]), tuple(ids[-QUESTION:])]])

    def run(model: Backbone) -> Callable[[], float]:
        @torch.inference_mode()
        def once() -> None:
            model.readout(model(batch), batch)

        return lambda: timed(once)

    times = alternate({name: run(model) for name, model in models.items()}, repeats)
    return {
        "shape": "Qwen3.5-0.8B, seeded weights" if config == QWEN35_08B else config.architecture,
        "tokens": tokens,
        "repeats": repeats,
        "aim": AIM,
        "ms": {name: found.median * 1e3 for name, found in times.items()},
        "p95_ms": {name: found.p95 * 1e3 for name, found in times.items()},
        "speedup": {kind: ratio(times["bf16"], times[kind]) for kind in kinds},
    }


def asked(
    data: Sequence[Path], checkpoint: Checkpoint, full: bool, limit: int | None
) -> list[Workload]:
    """The generated workloads, and one a file of decisions."""
    tokenizer = load_renderer(checkpoint, find_card(checkpoint)).tokenizer
    made = workloads(tokenizer, quick=not full)
    made += [
        Workload(name, "quality", "en", list(read_jsonl(path)))
        for name, path in zip(names_of(data), data, strict=True)
    ]
    kept: list[Workload] = []
    for one in made:
        asks = list(one.asks[:limit])
        # Workloads that differ in the order of rendering only would count their answers twice.
        if all(asks != other.asks for other in kept):
            kept.append(Workload(one.name, one.kind, one.language, asks, one.axes))
    return kept


def main(
    model: Annotated[str, typer.Option(help="Whose answers are compared.")] = "demo-base",
    kind: Annotated[Literal["int8", "fp8", "both"], typer.Option(help="Which 8 bits.")] = "both",
    data: Annotated[list[Path] | None, typer.Option(help="Decisions as JSON lines.")] = None,
    full: Annotated[bool, typer.Option(help="The full run's workloads.")] = False,
    limit: Annotated[int | None, typer.Option(min=1, help="Requests a workload.")] = None,
    tokens: Annotated[int, typer.Option(min=QUESTION + 1, help="Of the timed pass.")] = 512,
    repeats: Annotated[int, typer.Option(min=0, help="Timed rounds; 0: no timing.")] = 7,
) -> None:
    """Compare answers, then time; the last line is JSON."""
    keep_heap()
    checkpoint = resolve(model, progress=None)
    answers = Answers(checkpoint, asked(data or [], checkpoint, full, limit))
    kinds = KINDS if kind == "both" else (kind,)
    rows = [row for one in kinds for row in answers.drifts(one)]
    for row in rows:
        typer.echo(
            f"{row.kind:<5}{'(emulated) ' if row.emulated else '':<11}{row.workload:<28}"
            f"{row.questions:5} questions  same {row.agreement:7.2%}  |Δp| mean {row.mean:.4f}  "
            f"p99 {row.p99:.4f}  max {row.largest:.4f}"
        )
    totals: dict[Kind, Drift] = {one: [r for r in rows if r.kind == one][-1] for one in kinds}
    document: dict[str, Any] = {
        "model": model,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "threads": torch.get_num_threads(),
        "bounds": {"agreement": AGREEMENT, "mean": MEAN},
        "ok": {one: row.ok for one, row in totals.items()},
        "answers": [asdict(row) for row in rows],
    }
    for one, row in totals.items():
        if not row.ok:
            typer.echo(f"Red gate, no speed of {one} is reported.", err=True)
    green: list[Kind] = [one for one, row in totals.items() if row.ok and not row.emulated]
    if repeats and green:
        document["speed"] = found = on_compute_thread(
            partial(speed, QWEN35_08B, tokens, green, repeats)
        )
        for one in green:
            typer.echo(
                f"{tokens} tokens: bf16 {found['ms']['bf16']:.0f} ms, {one} "
                f"{found['ms'][one]:.0f} ms, {found['speedup'][one]:.2f}x"
            )
    typer.echo(json.dumps(document))
    if any(not row.ok and not row.emulated for row in totals.values()):
        raise typer.Exit(1)


if __name__ == "__main__":
    typer.run(main)
