"""`Variant`: small trainings that differ in one thing each.

All are judged on the same validation rows by NLL and accuracy at temperature 1, as differences from
the standard recipe with intervals by state. A training that is done is not repeated, one that was
interrupted goes on. One seed each: the intervals tell of other rows, not of other trainings.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np

from readoff.bench.calibrate.fit import calibrated
from readoff.bench.report.blocks import Table
from readoff.bench.report.markdown import render_table
from readoff.bench.report.result import write_text
from readoff.engine.card_fields import Prior, Temperature
from readoff.engine.lora import RECORD
from readoff.learn.dataset import load_dataset
from readoff.learn.errors import ExampleError, TrainingError
from readoff.learn.evaluate.contender import Contender, readout
from readoff.learn.evaluate.decisions import Decisions, read_decisions
from readoff.learn.evaluate.figures import figure_rows, paired_rows
from readoff.learn.evaluate.logits import kept_rows
from readoff.learn.evaluate.slices import Slice
from readoff.learn.evaluate.subject import Options, Subject
from readoff.learn.settings import Settings, differences
from readoff.learn.state import STATE
from readoff.learn.training import Source, train

Tell: TypeAlias = Callable[[str, int, int], None]
Data: TypeAlias = Literal["fixed", "ordered", "estimated"]
"""Which rows: with the usual weights; the same with the options of every choice in one order, that
of their names; the same with weights by estimated noise."""

STANDARD, ZERO_SHOT = "standard", "zero-shot"
STATES, VALID_STATES = 250, 60
SMALL = Settings(
    batch=32, learning_rate=2e-4, eval_every=1_000_000, eval_rows=1, patience=0, epochs=1
)
"""Few rows make few steps, so these are smaller and longer than the published ones."""


@dataclass(frozen=True)
class Variant:
    """A training. `about` says what differs from the standard one."""

    name: str
    about: str
    settings: Settings
    data: Data = "fixed"


def variants(small: Settings = SMALL) -> tuple[Variant, ...]:
    """The standard recipe first."""
    return (
        Variant(STANDARD, "soft labels, λ = 0.5, options permuted, derived rows weigh 0.5", small),
        Variant("hard-labels", "the largest of a soft label counts 1", replace(small, hard=True)),
        Variant("no-brier", "λ = 0: cross-entropy alone", replace(small, brier_weight=0.0)),
        Variant("one-order", "options in the order of their names, not permuted", small, "ordered"),
        Variant(
            "estimated-weights", "1 less the estimated noise in place of 0.5", small, "estimated"
        ),
    )


@dataclass(frozen=True)
class Setup:
    """Where the rows come from, the model, and the folder for everything that is made.

    `data` and `estimated` are folders of `readoff.learn.data`, which differ in weights alone.
    """

    model: str
    data: Path
    estimated: Path | None
    out: Path
    states: int = STATES
    valid_states: int = VALID_STATES
    base_name: str | None = None
    seed: int = 0
    resamples: int = 1000
    options: Options = field(default_factory=Options)


def run(setup: Setup, settings: Settings = SMALL, tell: Tell = lambda *at: None) -> dict[str, Any]:
    """Train what isn't trained, ask what isn't asked; the document of findings.

    Raises ReadoffError: as `train` does, ExampleError where the two folders hold other rows.
    """
    chosen = [v for v in variants(settings) if v.data != "estimated" or setup.estimated]
    valid = _first(setup.data / "valid.jsonl", setup.valid_states)
    judged = setup.out / "valid.jsonl"
    write_text(judged, "".join(f"{line}\n" for line in valid))
    for number, variant in enumerate(chosen):
        tell("trainings", number, len(chosen))
        _train(setup, variant, judged, tell)
    tell("trainings", len(chosen), len(chosen))
    decisions = read_decisions([judged], ("valid",))
    subjects = {ZERO_SHOT: None} | {v.name: setup.out / v.name for v in chosen}
    contenders = [
        _answered(name, Subject(setup.model, adapter, setup.options), decisions, setup, tell)
        for name, adapter in subjects.items()
    ]
    return _document(setup, chosen, decisions, contenders)


def _train(setup: Setup, variant: Variant, judged: Path, tell: Tell) -> None:
    out = setup.out / variant.name
    rows = setup.out / f"train-{variant.data}.jsonl"
    write_text(rows, "".join(f"{line}\n" for line in _rows(setup, variant.data)))
    settings = replace(variant.settings, seed=setup.seed)
    if _is_done(out, settings, load_dataset([rows, judged], seed=setup.seed).digest):
        return
    options = setup.options
    source = Source(
        model=setup.model,
        dtype=options.dtype,
        thread_count=options.threads,
        name=setup.base_name,
    )
    unfinished = (out / STATE).is_file()
    found = train(
        source,
        [rows, judged],
        out,
        settings,
        resume=unfinished,
        force=not unfinished,
        tell=lambda tick: tell(variant.name, tick.step, tick.steps),
    )
    if found.ending == "interrupted":
        raise TrainingError(f"{variant.name} was interrupted. Call again to go on.")


def _is_done(out: Path, settings: Settings, data: str) -> bool:
    """Whether a whole training on these rows (their digest) lies there; TrainingError for one with
    other settings or on other rows."""
    if not (out / RECORD).is_file() or (out / STATE).is_file():
        return False
    facts = json.loads((out / RECORD).read_text(encoding="utf-8"))["facts"]
    own = settings.to_json() | {"data": data}
    other = differences({key: facts.get(key) for key in own}, own)
    if other:
        raise TrainingError(
            f"{out} holds another training ({'; '.join(other)}). Name another folder with --out."
        )
    return True


def _rows(setup: Setup, data: Data) -> list[str]:
    """The lines of a variant's training rows."""
    lines = _first(setup.data / "train.jsonl", setup.states)
    if data == "ordered":
        return [ordered(line) for line in lines]
    if data == "fixed":
        return lines
    assert setup.estimated is not None, "left out before"
    others = _first(setup.estimated / "train.jsonl", setup.states)
    if [_without_weights(line) for line in others] != [_without_weights(line) for line in lines]:
        raise ExampleError(
            f"{setup.estimated} holds other rows than {setup.data}. Make both with the same "
            "seed and number of states; only --weights may differ."
        )
    return others


def ordered(line: str) -> str:
    """A row with the options of every choice in the order of their names. Labels are names."""
    row = json.loads(line)
    for question in row["questions"].values():
        if question["type"] == "choice":
            question["criteria"] = dict(sorted(question["criteria"].items()))
    return json.dumps(row, ensure_ascii=False)


def _without_weights(line: str) -> Mapping[str, Any]:
    row: dict[str, Any] = json.loads(line)
    row.pop("weight", None)
    return row


def _first(path: Path, count: int) -> list[str]:
    """The first rows of a file: they are shuffled, so that these are balanced."""
    try:
        lines = [line for line in path.read_text(encoding="utf-8").split("\n") if line.strip()]
    except OSError as error:
        raise ExampleError(f"{path} can't be read: {error.strerror}.") from error
    if len(lines) < count:
        raise ExampleError(f"{path} has {len(lines)} rows, and {count} are wanted.")
    return lines[:count]


def _answered(
    name: str, subject: Subject, decisions: Decisions, setup: Setup, tell: Tell
) -> Contender:
    rows = kept_rows(
        subject,
        decisions.asks,
        ("none",),
        setup.out / "logits",
        tell=lambda done, total: tell(f"validating {name}", done, total),
    )["none"]
    subject.close()
    return readout(name, rows, calibrated(rows, Prior(), Temperature()))


def _document(
    setup: Setup,
    chosen: Sequence[Variant],
    decisions: Decisions,
    contenders: Sequence[Contender],
) -> dict[str, Any]:
    everything = np.ones(len(decisions), np.bool_)
    whole = [Slice("all", "all", everything)]
    seed, resamples = setup.seed, setup.resamples
    standard = next(one for one in contenders if one.name == STANDARD)
    pairs = [(one, standard) for one in contenders if one is not standard]
    return {
        "schema": 1,
        "model": setup.model,
        "states": setup.states,
        "valid_states": setup.valid_states,
        "settings": chosen[0].settings.to_json(),
        "variants": [{"name": v.name, "about": v.about, "data": v.data} for v in chosen],
        "options": asdict(setup.options),
        "rows": figure_rows(contenders, whole, everything, seed=seed, resamples=resamples),
        "differences": paired_rows(pairs, whole, everything, seed=seed, resamples=resamples),
    }


def markdown(document: Mapping[str, Any]) -> str:
    """The table for docs/training.md."""
    about = {v["name"]: v["about"] for v in document["variants"]}
    against = {row["a"]: row for row in document["differences"]}
    rows = []
    for row in document["rows"]:
        name, other = row["contender"], against.get(row["contender"])
        gains = ["–", "–"]
        if other is not None:
            gains = [_value(other, figure, "+.3f") for figure in ("nll", "accuracy")]
        figures = [_value(row, figure, ".3f") for figure in ("nll", "accuracy")]
        rows.append([name, about.get(name, "the model without an adapter"), *figures, *gains])
    head = ["training", "what differs", "NLL", "accuracy", "NLL less standard"]
    first = document["rows"][0]
    lines = [
        f"{document['states']} training states, one epoch, "
        f"{document['settings']['batch']} questions a step, learning rate "
        f"{document['settings']['learning_rate']:g}, seed {document['settings']['seed']}; judged "
        f"on {first['decisions']} validation questions about {first['states']} states. 95 % "
        "intervals by state, differences paired; one training each.",
        "",
        *render_table(Table([*head, "accuracy less standard"], rows, left=frozenset({0, 1}))),
    ]
    return "\n".join(lines) + "\n"


def _value(row: Mapping[str, Any], figure: str, form: str) -> str:
    ends: Iterable[float] | None = row[f"{figure}_interval"]
    told = "" if ends is None else f" [{', '.join(format(end, form) for end in ends)}]"
    return f"{row[figure]:{form}}{told}"
