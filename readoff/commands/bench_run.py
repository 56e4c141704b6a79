"""What `readoff bench` does: load, measure, write, and keep what there is when something fails."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from rich.console import Console

from readoff.commands import machine, options
from readoff.commands.output import note
from readoff.engine.errors import ReadoffError

if TYPE_CHECKING:
    from readoff.bench.records import Workload
    from readoff.bench.report.result import Result
    from readoff.engine.engine import Engine


@dataclass(frozen=True)
class Chosen:
    """The options of `readoff bench`, as they were given."""

    quick: bool
    model: str
    adapter: str | None
    card: Path | None
    revision: str | None
    device: str
    dtype: options.Dtype
    threads: int | None
    data: Sequence[Path]
    opponents: Sequence[str]
    opponent_kind: Literal["openai", "systemone"] | None
    opponent_model: str | None
    opponent_timeout: float
    out: Path
    seed: int
    rungs: Sequence[str] | None
    repeats: int | None


def run(chosen: Chosen, *, quiet: bool) -> None:
    """Measure and report. `quiet`: nothing but the document on stdout.

    Raises ReadoffError and KeyboardInterrupt, after what was measured was written and printed.
    """
    # What is missing is missed before anything is measured.
    from readoff.bench.report import files, live
    from readoff.bench.report.result import Result

    started = time.perf_counter()
    data = _read_data(chosen)
    result = Result({"started": datetime.now(UTC).isoformat(timespec="seconds")})
    output = _Output(chosen.out, result, started)
    console = Console(stderr=True)
    if not console.is_terminal:
        console = Console(stderr=True, width=max(console.width, live.WIDE))
    try:
        engine = _engine(chosen)
        result.about = {**result.about, **_about(chosen, engine)}
        with live.watching(console) as watch:
            _measure(chosen, engine, data, result, watch, output.save)
    except KeyboardInterrupt:
        result.stopped = "interrupted by Ctrl-C."
        raise
    except ReadoffError as error:
        result.stopped = str(error)
        raise
    finally:
        if "settings" in result.about:
            document = output.document()
            with output.closing():
                paths = files.write_all(chosen.out, document)
                note(f"written: {', '.join(map(str, paths))}")
            if not quiet:
                _summary(document)
            print(files.line(document), flush=True)
    if output.failed is not None:
        raise output.failed


class _Output:
    """Writes result.json while the run goes on. A full disk is told once and does not end it."""

    def __init__(self, folder: Path, result: Result, started: float) -> None:
        self.folder, self.result, self.started = folder, result, started
        self.failed: ReadoffError | None = None

    def document(self) -> dict[str, Any]:
        """As of now."""
        self.result.seconds = time.perf_counter() - self.started
        return self.result.document()

    def save(self) -> None:
        """After every workload."""
        from readoff.bench.report.files import write_result

        with self.closing():
            write_result(self.folder, self.document())

    @contextmanager
    def closing(self) -> Iterator[None]:
        """An error in here is kept for the end: what was measured is worth more."""
        try:
            yield
        except ReadoffError as error:
            if self.failed is None or str(self.failed) != str(error):
                note(f"readoff: warning: {error}")
            self.failed = error
        else:
            self.failed = None


def _read_data(chosen: Chosen) -> list[Workload]:
    """The labelled files, read before the model is loaded: mistakes in them are told at once."""
    from readoff.bench.quality.files import names_of
    from readoff.bench.quality.jsonl import read_jsonl
    from readoff.bench.records import Workload as Made

    names = names_of(chosen.data)
    return [
        Made(name, "quality", "en", list(read_jsonl(path)))
        for name, path in zip(names, chosen.data, strict=True)
    ]


def _engine(chosen: Chosen) -> Engine:
    engine = options.load_engine(
        chosen.model,
        adapter=chosen.adapter,
        card=chosen.card,
        revision=chosen.revision,
        device=chosen.device,
        dtype=chosen.dtype,
        threads=chosen.threads,
        cache_bytes=0,  # rungs start cold; the one that doesn't has a cache of its own
    )
    if engine.card.debias != "none":
        raise ReadoffError(
            f'The decision card was fitted under debias="{engine.card.debias}", which the rungs '
            "don't do: its temperatures and gate would be measured where they don't belong. Give "
            "--card one that was fitted without, or readoff calibrate's report for this one."
        )
    return engine


def _measure(
    chosen: Chosen,
    engine: Engine,
    data: Sequence[Workload],
    result: Result,
    watch: Any,
    save: Any,
) -> None:
    from readoff.bench.http.opponents import Opponents
    from readoff.bench.rungs.standard import standard_rungs
    from readoff.bench.session import Session, Settings
    from readoff.bench.workloads.plan import workloads
    from readoff.engine.source import resolve

    checkpoint = resolve(chosen.model, chosen.adapter, chosen.revision)
    rungs = standard_rungs(checkpoint, engine.dtype, engine.device, chosen.rungs)
    opponents = Opponents(
        chosen.opponents,
        chosen.opponent_kind,
        chosen.opponent_model,
        os.environ.get("READOFF_OPPONENT_KEY"),
        chosen.opponent_timeout,
    )
    settings = Settings(chosen.quick, chosen.seed, chosen.rungs, chosen.repeats, opponents)
    watch.stage("writing the requests")
    made = workloads(engine.renderer.tokenizer, seed=chosen.seed, quick=chosen.quick)
    watch.stage("warming up")
    engine.warmup()
    Session(engine, checkpoint, rungs, result, settings, watch, save).run(made, data)


def _about(chosen: Chosen, engine: Engine) -> dict[str, Any]:
    from readoff.bench.report.commit import commit

    facts = engine.info()
    about = machine.describe(facts["device"], chosen.dtype.value)
    about |= {name: facts[name] for name in ("device", "dtype", "threads")}
    about.pop("demo_model")  # a path of this user's
    return {
        "commit": commit(),
        "settings": {
            "model": chosen.model,
            "adapter": chosen.adapter,
            "card": None if chosen.card is None else str(chosen.card),
            "quick": chosen.quick,
            "seed": chosen.seed,
            "rungs": chosen.rungs,
            "repeats": chosen.repeats,
            "data": [path.name for path in chosen.data],
        },
        "machine": about,
        "model": {k: v for k, v in facts.items() if k != "kernels"},
    }


def _summary(document: Mapping[str, Any]) -> None:
    """The targets in a line each."""
    for row in document["targets"]:
        word = "met" if row["met"] else "missed"
        print(
            f"{row['name']} ({row['workload']}): {row['ratio']:.2f}x "
            f"[{row['low']:.2f}, {row['high']:.2f}], asked {row['asked']:g}x: {word}"
        )
    sys.stdout.flush()
