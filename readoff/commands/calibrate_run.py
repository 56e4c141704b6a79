"""What `readoff calibrate` does: read, run the model once, fit, write."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from readoff.commands import options
from readoff.commands.download import fetch_demo_for
from readoff.commands.output import note, print_json
from readoff.engine.card_fields import Debias, Digests

if TYPE_CHECKING:
    from readoff.bench.calibrate.data import Labelled
    from readoff.bench.calibrate.fit import Method
    from readoff.bench.calibrate.gates import GateRule
    from readoff.bench.calibrate.rows import Rows
    from readoff.engine.card import Card
    from readoff.engine.checkpoint import Checkpoint
    from readoff.engine.prompt import Renderer

Tell = Callable[[str, int, int], None]
PAUSE = 5.0
"""Seconds between two lines of progress in a log."""


@dataclass(frozen=True)
class Chosen:
    """The options of `readoff calibrate`, as they were given."""

    data: Path
    model: str
    out: Path
    adapter: str | None
    card: Path | None
    revision: str | None
    device: str
    dtype: options.Dtype
    threads: int | None
    method: Method
    prior: bool
    debias: Debias
    rotations: int
    gate: str | None
    seed: int


def run(chosen: Chosen, *, json_output: bool) -> None:
    """Calibrate and write. Raises ReadoffError."""
    # What is missing is missed before the model is loaded.
    from readoff.bench.calibrate.collect import labelled_rows
    from readoff.bench.calibrate.data import read_labelled
    from readoff.bench.calibrate.document import document
    from readoff.bench.calibrate.fit import Recipe
    from readoff.bench.calibrate.folder import check_folder, save_card
    from readoff.bench.calibrate.report import write_report
    from readoff.bench.calibrate.run import calibrate, card_from, check_labels, hopeless
    from readoff.bench.report.files import write_result

    rule = gate_rule(chosen.gate)
    labelled = read_labelled(chosen.data)
    asked = labelled_rows(labelled.asks)
    if early := hopeless(asked, rule, check_labels(asked, rule, chosen.seed)):
        note(f"note: {early}")
    check_folder(chosen.out)
    checkpoint, card, renderer = _model(chosen)
    digests = Digests(
        weights=checkpoint.weights_digest(),
        adapter=checkpoint.adapter_digest(),
        tokenizer=renderer.tokenizer.digest,
    )
    with progress() as tell:
        rows = _rows(chosen, labelled, card, renderer, digests, tell)
        made = calibrate(
            rows,
            Recipe(chosen.method, chosen.prior),
            gate=rule,
            seed=chosen.seed,
            notes=labelled.notes,
            tell=tell,
        )
    fitted = card_from(
        card, made, digests, renderer.template.digest, chosen.debias, chosen.rotations
    )
    found = document(made, _about(chosen))
    write_result(chosen.out, found)
    paths = [*save_card(chosen.out, fitted), *write_report(chosen.out, found)]
    for text in found["notes"]:
        note(f"note: {text}")
    note(f"written: {', '.join(map(str, paths))}")
    if json_output:
        print_json(found)
    else:
        _summary(found)


def gate_rule(text: str | None) -> GateRule | None:
    """The rule that `--gate` names. Raises typer.BadParameter."""
    from readoff.bench.calibrate.gate_fit import Costs
    from readoff.bench.calibrate.gates import Cost, Coverage, Risk

    if text is None:
        return None
    kind, _, rest = text.partition(":")
    try:
        numbers = [float(part) for part in rest.split(",")]
    except ValueError:
        numbers = []
    try:
        if kind == "cost" and len(numbers) in (2, 3):
            return Cost(Costs(*numbers))
        within = all(0.0 < number <= 1.0 for number in numbers)
        if kind == "risk" and len(numbers) == 2 and within and max(numbers) < 1.0:
            return Risk(*numbers)
        if kind == "coverage" and len(numbers) == 1 and within:
            return Coverage(*numbers)
    except ValueError as error:
        raise typer.BadParameter(f"{text!r}: {error}", param_hint="--gate") from None
    raise typer.BadParameter(
        f"{text!r} is no rule; write cost:10,1 (wrong, escalated), risk:0.1,0.05 (error, chance of "
        "breaking the promise) or coverage:0.8.",
        param_hint="--gate",
    )


@contextmanager
def progress() -> Iterator[Tell]:
    """Bars on a terminal, now and then a line in a log; both on stderr."""
    if not sys.stderr.isatty():
        last: dict[str, float] = {}

        def line(what: str, done: int, total: int) -> None:
            now = time.monotonic()
            if done == total or now - last.setdefault(what, now) >= PAUSE:
                last[what] = now
                note(f"  {what}: {done} of {total}")

        yield line
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=28),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True)) as bars:
        tasks: dict[str, Any] = {}

        def bar(what: str, done: int, total: int) -> None:
            if what not in tasks:
                tasks[what] = bars.add_task(what, total=total)
            bars.update(tasks[what], completed=done, total=total)

        yield bar


def _model(chosen: Chosen) -> tuple[Checkpoint, Card, Renderer]:
    """What can be known without the weights in memory."""
    from readoff.engine.loading import find_card, load_renderer
    from readoff.engine.source import resolve

    fetch_demo_for(chosen.model)
    checkpoint = resolve(chosen.model, chosen.adapter, chosen.revision)
    card = find_card(checkpoint, chosen.card)
    return checkpoint, card, load_renderer(checkpoint, card)


def _rows(
    chosen: Chosen,
    labelled: Labelled,
    card: Card,
    renderer: Renderer,
    digests: Digests,
    tell: Tell,
) -> Rows:
    """The logits, from an earlier call if it asked the same of the same model."""
    from readoff.bench.calibrate.cache import cache_path, load_rows, save_rows
    from readoff.bench.calibrate.collect import collect, relabelled
    from readoff.bench.calibrate.data import requests_digest
    from readoff.engine.runtime import choose_device, choose_dtype

    where = choose_device(chosen.device)
    asked = requests_digest(labelled.asks)
    key: dict[str, object] = {
        "weights": digests.weights,
        "adapter": digests.adapter,
        "tokenizer": digests.tokenizer,
        "template": renderer.template.digest,
        "labels": card.labels.to_json(),
        "device": where.type,
        "dtype": str(choose_dtype(chosen.dtype.value, where)),
        "requests": asked,
        "debias": chosen.debias,
        "rotations": chosen.rotations if chosen.debias in ("rotate", "both") else None,
    }
    path = cache_path(chosen.out, key)
    kept = load_rows(path, asked)
    # Only logits are kept: labels and weights are those of the file that was read now.
    rows = None if kept is None else relabelled(kept, labelled.asks)
    if rows is not None:
        note(f"logits of an earlier run: {path}")
        return rows
    if path.exists():
        note(f"note: {path} is damaged, so the model is asked again.")
    engine = options.load_engine(
        chosen.model,
        adapter=chosen.adapter,
        card=chosen.card,
        revision=chosen.revision,
        device=chosen.device,
        dtype=chosen.dtype,
        threads=chosen.threads,
    )
    found = collect(
        engine,
        labelled.asks,
        (chosen.debias,),
        rotations=chosen.rotations,
        tell=lambda done, total: tell("requests", done, total),
    )
    save_rows(path, found[chosen.debias], asked)
    return found[chosen.debias]


def _about(chosen: Chosen) -> dict[str, Any]:
    from readoff.bench.report.commit import commit

    return {
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": commit(),
        "model": chosen.model,
        "adapter": chosen.adapter,
        "data": chosen.data.name,
        "debias": chosen.debias,
        "rotations": chosen.rotations if chosen.debias in ("rotate", "both") else None,
        "seed": chosen.seed,
    }


def _summary(document: Mapping[str, Any]) -> None:
    """Before and after in a few lines, then the gate."""
    from readoff.bench.calibrate.document import label

    whole = document["parts"][0]
    print(f"{document['decisions']} decisions about {document['states']} states, out of fold:")
    for key, name in (("nll", "NLL"), ("ece", "ECE"), ("brier", "Brier"), ("accuracy", "accuracy")):
        print(f"  {name:9}{whole['before'][key]:.4f} -> {whole['after'][key]:.4f}")
    if (floor := whole["after"]["calibrated_ece"]) is not None:
        print(f"  ECE of a perfectly calibrated model here: {floor:.4f}")
    for one in document["temperatures"]:
        print(f"temperature of {label(one)}: {one['value']:.3f}")
    gate = document["gate"]
    for one in () if gate is None else gate["thresholds"]:
        cut = "nothing is accepted" if one["threshold"] is None else f"{one['threshold']:.4f}"
        share = "" if math.isclose(one["coverage"], 0.0) else f", accepts {one['coverage']:.1%}"
        print(f"gate, {one['key']}: {cut}{share} ({one['why']})")
