"""What exported graphs give and cost on a CPU, in one run.

    python -m readoff.bench.onnx --model demo         exports it in fp32, int8 and both flavours
    python -m readoff.bench.onnx --model PACK …       packs of one model

Past reuse (a state once, and eight questions from its past) against eight separate runs; precisions
and flavours against each other on one cold prompt; start-up in a process of its own. Nothing is
timed before the answers were compared: a red gate ends the run with status 1. The last line of
stdout is one JSON document.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from statistics import median
from typing import Annotated, Any

import numpy as np
import typer

from readoff.bench.report.commit import commit
from readoff.bench.timing import Times, alternate, ratio, timed
from readoff.export.graph.options import Flavour, GraphOptions, Precision
from readoff.export.pack import GRAPH, Pack, is_pack, read_pack
from readoff.export.parity import BOUNDS
from readoff.export.session import Array, GraphSession, LabelRows, Outcome

STATE, QUESTION, QUESTIONS = 400, 40, 8
LABELS = tuple(range(32, 40))
AIMS = {"past reuse": 4.0, "int8 against fp32": 2.0}
"""How many times faster each is meant to be."""
STARTUP_AIM = 2.0
"""Seconds, for the demonstration model's size, from a warm disk."""

EXPORTS: tuple[tuple[Flavour, Precision], ...] = (
    ("standard", "fp32"),
    ("standard", "int8"),
    ("contrib", "fp32"),
    ("contrib", "int8"),
)

_START = """
import sys, time
started = time.perf_counter()
from readoff.export.runtime import OnnxEngine
imported = time.perf_counter()
with OnnxEngine.from_pretrained(sys.argv[1], threads=int(sys.argv[2])) as engine:
    print(imported - started, time.perf_counter() - imported)
"""


class RedGateError(RuntimeError):
    """Two ways of asking one model differ by more than they may."""


@dataclass(frozen=True)
class Contender:
    """A pack in a session, and what it is asked."""

    pack: Pack
    session: GraphSession

    @property
    def name(self) -> str:
        """Flavour and precision."""
        return f"{self.pack.options.flavour} {self.pack.options.precision}"

    @cached_property
    def state(self) -> Array:
        """[1, STATE] ids."""
        return _ids(0, STATE, self.pack.config.vocab_size)

    @cached_property
    def questions(self) -> Array:
        """[QUESTIONS, QUESTION] ids."""
        vocab = self.pack.config.vocab_size
        return np.concatenate([_ids(1 + n, QUESTION, vocab) for n in range(QUESTIONS)])

    def cold(self, question: int = 0) -> Outcome:
        """One prompt whole."""
        row = np.concatenate([self.state, self.questions[question : question + 1]], axis=1)
        return self._run(row, None, 0)

    def separate(self) -> Array:
        """Every prompt by itself: logits [QUESTIONS, L]."""
        return np.concatenate([self.cold(n).logits for n in range(QUESTIONS)])

    def reused(self) -> Array:
        """The state once, then all questions from its past."""
        outcome = self._run(self.state, None, 0)
        past = self.session.continued(self.session.empty(), 0, outcome, 0, STATE)
        return self._run(self.questions, past, STATE).logits

    def _run(self, tokens: Array, past: dict[str, Array] | None, length: int) -> Outcome:
        rows = len(tokens)
        labels = LabelRows.of([LABELS] * rows)
        return self.session.run(tokens, [tokens.shape[1]] * rows, [length], past, labels)


def _ids(seed: int, count: int, vocab: int) -> Array:
    return np.random.default_rng(seed).integers(0, min(vocab, 1000), (1, count))


@contextmanager
def packs(sources: Sequence[str]) -> Iterator[list[Pack]]:
    """The packs named, or those of one model that are made for this run and vanish after it."""
    if all(map(is_pack, sources)):
        yield [read_pack(source) for source in sources]
        return
    if len(sources) > 1:
        raise typer.BadParameter("give one model, or packs only")
    with tempfile.TemporaryDirectory() as folder:
        yield list(_exported(sources[0], Path(folder)))


def _exported(source: str, folder: Path) -> Iterator[Pack]:
    """Unchecked packs: what is timed is compared here anyway."""
    from readoff.engine.loading import find_card, load_renderer
    from readoff.engine.parameters import EMBEDDING
    from readoff.engine.source import resolve
    from readoff.export.base import base_of, stored_dtypes
    from readoff.export.graph.model import build_model
    from readoff.export.graph.save import save
    from readoff.export.hf_folder import hf_config
    from readoff.export.pack_writing import write_pack

    checkpoint = resolve(source)
    card, base = find_card(checkpoint), base_of(checkpoint)
    dtype = stored_dtypes(base, [EMBEDDING])[EMBEDDING]
    tokenizer = load_renderer(checkpoint, card).tokenizer
    for flavour, precision in EXPORTS:
        options = GraphOptions(flavour=flavour, precision=precision)
        out = folder / f"{flavour}-{precision}"
        out.mkdir()
        save(build_model(checkpoint, options), out / GRAPH)
        yield write_pack(
            out,
            name=source,
            config=hf_config(base, checkpoint.config, dtype, tokenizer),
            options=options,
            tokenizer_files=checkpoint.tokenizer_files,
            card=card,
            weights=checkpoint.weights_digest(),
        )


def gate(contenders: Sequence[Contender]) -> dict[str, float]:
    """How far each one's reused past is from its separate runs, and each from the first, in the
    largest Δp of eight questions. Raises RedGateError beyond twice the export's own bound."""
    apart: dict[str, float] = {}
    first = _softmax(contenders[0].separate())
    for contender in contenders:
        bound = 2 * BOUNDS[contender.pack.options.precision].probability
        separate = _softmax(contender.separate())
        reused = _softmax(contender.reused())
        found = {
            f"{contender.name}, past against none": float(np.abs(reused - separate).max()),
            f"{contender.name} against {contenders[0].name}": float(np.abs(separate - first).max()),
        }
        for what, value in found.items():
            if not value <= bound:
                raise RedGateError(f"{what}: Δp {value:.2g}, more than {bound:g}")
        apart |= found
    return apart


def _softmax(logits: Array) -> Array:
    shares: Array = np.exp(logits - logits.max(1, keepdims=True))
    normed: Array = shares / shares.sum(1, keepdims=True)
    return normed


def reuse(contender: Contender, repeats: int) -> dict[str, Any]:
    """One state and eight questions, with its past and without."""
    runs = {"separate runs": contender.separate, "past reuse": contender.reused}
    times = alternate({name: partial(timed, run) for name, run in runs.items()}, repeats)
    told = ratio(times["separate runs"], times["past reuse"])
    bound = QUESTIONS * (STATE + QUESTION) / (STATE + QUESTIONS * QUESTION)
    return {**_milliseconds(times), "ratio": told, "token bound": bound}


def cold(contenders: Sequence[Contender], repeats: int) -> dict[str, Any]:
    """One prompt of 440 tokens by every pack in turn, and the ratios to the first."""
    runs = {one.name: one.cold for one in contenders}
    times = alternate({name: partial(timed, run) for name, run in runs.items()}, repeats)
    first = contenders[0].name
    ratios = {f"{name} against {first}": ratio(times[first], t) for name, t in times.items()}
    return _milliseconds(times) | {k: v for k, v in ratios.items() if not k.startswith(first)}


def startup(pack: Pack, threads: int, repeats: int) -> dict[str, float]:
    """Seconds to import the runtime and to load the pack, in fresh processes, the disk warm."""
    words = [sys.executable, "-c", _START, str(pack.folder), str(threads)]
    found = []
    for _ in range(1 + repeats):
        done = subprocess.run(words, capture_output=True, text=True, check=True)
        found.append([float(word) for word in done.stdout.split()])
    imports, loads = (median(column) for column in zip(*found[1:], strict=True))
    return {"import s": imports, "load s": loads, "both s": imports + loads}


def _milliseconds(times: dict[str, Times]) -> dict[str, Any]:
    return {f"{name} ms": 1e3 * t.median for name, t in times.items()}


def main(
    model: Annotated[
        list[str] | None, typer.Option("--model", help="A model, or packs of one model.")
    ] = None,
    repeats: Annotated[int, typer.Option(min=1, help="Timed rounds.")] = 5,
    threads: Annotated[int, typer.Option(min=1, help="Of ONNX Runtime.")] = os.cpu_count() or 1,
) -> None:
    """Compare, time, print; the last line is JSON."""
    sources = model or ["demo"]
    parts: dict[str, Any] = {}
    with packs(sources) as found:
        for pack in found:
            name = f"{pack.options.flavour} {pack.options.precision}"
            parts[f"start-up, {name}"] = startup(pack, threads, min(repeats, 3))
        contenders = [
            Contender(
                pack,
                GraphSession(pack.graph, pack.config, pack.options, threads=threads, spin=False),
            )
            for pack in found
        ]
        try:
            parts["gate, max |Δp|"] = gate(contenders)
        except RedGateError as error:
            typer.echo(f"Red gate: {error}", err=True)
            typer.echo(json.dumps({"benchmark": "onnx", "gate": "red", "reason": str(error)}))
            raise typer.Exit(1) from error
        parts[f"{QUESTIONS} questions, {contenders[0].name}"] = reuse(contenders[0], repeats)
        parts["one cold prompt"] = cold(contenders, repeats)
    for name, part in parts.items():
        typer.echo(name)
        for what, value in part.items():
            typer.echo(f"  {what:<48} {value:10.4g}")
    about = {
        "benchmark": "onnx",
        "model": sources,
        "threads": threads,
        "onnxruntime": importlib.metadata.version("onnxruntime"),
        "commit": commit(),
        "aims": {**AIMS, "start-up s": STARTUP_AIM},
    }
    typer.echo(json.dumps({**about, **parts}))


if __name__ == "__main__":
    typer.run(main)
