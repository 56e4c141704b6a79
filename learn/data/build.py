"""From the folder of the public data to a folder of training data."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Literal

from readoff.bench.workloads.lexicon import FAMILIES
from readoff.learn.data import tokens
from readoff.learn.data.assemble import BUILT, BUILT_LICENCE
from readoff.learn.data.banking77 import banking77
from readoff.learn.data.catalogue import catalogue
from readoff.learn.data.clinc150 import clinc150
from readoff.learn.data.dedup import deduplicated, evaluation_texts
from readoff.learn.data.desk import Desk
from readoff.learn.data.errors import DataError
from readoff.learn.data.messages import OUT_OF_SCOPE, SPLITS, Source, Split
from readoff.learn.data.mixture import Offices, test_rows, training_rows
from readoff.learn.data.noise import Noise, estimate, fixed_weight
from readoff.learn.data.posterior import Posterior, posterior
from readoff.learn.data.row import Row
from readoff.learn.data.summary import summary
from readoff.learn.data.write import check_target, write_folder

SOURCES: Mapping[str, Callable[[Path], Source]] = {"clinc150": clinc150, "banking77": banking77}
STATES = 3200
VALID_STATES = 250


@dataclass(frozen=True)
class Options:
    """What to make. `states` are the training rows; valid and test shrink with few of them.

    `only` keeps the questions of these families, and the rows that have any: the same rows that
    are made without it, less the rest. `model` is the one whose tokens are counted; None counts
    none.
    """

    sources: Path
    out: Path
    seed: int = 0
    states: int = STATES
    weights: Literal["fixed", "estimated"] = "fixed"
    only: tuple[str, ...] = ()
    model: str | None = "demo"
    force: bool = False


def build(options: Options, say: Callable[[str], None] = lambda text: None) -> dict[str, object]:
    """Make a data set and return what its data.json holds; `say` hears how far it is.

    The same sources, options and versions of numpy and scikit-learn make the same files. Raises
    DataError or QualityError before anything is written.
    """
    if options.states < 1 or options.seed < 0:
        raise DataError("The states must be at least 1 and the seed not negative.")
    if unknown := sorted(set(options.only) - set(FAMILIES)):
        raise DataError(f'There is no family "{unknown[0]}"; there are {", ".join(FAMILIES)}.')
    check_target(options.out, force=options.force)
    if not options.sources.is_dir():
        raise DataError(
            f"{options.sources} is no folder. Give the one that holds clinc150/ and so on."
        )
    render = tokens.renderer(options.model) if options.model else None
    say("reading the sources")
    evaluation = evaluation_texts(options.sources)
    given = {name: load(options.sources) for name, load in SOURCES.items()}
    say("dropping what the evaluation has too")
    sources, dropped = deduplicated(given, evaluation)
    posteriors = {}
    for name, source in sources.items():
        say(f"{name}: a second opinion on its labels")
        posteriors[name] = posterior(source)
    say("making rows")
    share = min(1.0, options.states / STATES)
    rows: dict[Split, list[Row]] = {
        "train": training_rows(
            offices(sources, posteriors, "train"), "train", options.states, options.seed
        ),
        "valid": training_rows(
            offices(sources, posteriors, "valid"),
            "valid",
            max(20, round(VALID_STATES * share)),
            options.seed,
        ),
        "test": test_rows(offices(sources, posteriors, "test"), options.seed, max(0.1, share)),
    }
    check(rows)
    say("estimating how noisy the labels are")
    noise = estimate(posteriors, rows["train"])
    if options.only:
        rows = {split: _only(found, options.only) for split, found in rows.items()}
    document: dict[str, object] = {
        "seed": options.seed,
        "states": options.states,
        "weights": options.weights,
        "only": list(options.only) or None,
        "sources": {
            name: {"licence": source.licence, "sha256": source.digest}
            for name, source in sources.items()
        }
        | {BUILT: {"licence": BUILT_LICENCE, "sha256": None}},
        "dropped": {name: asdict(found) for name, found in dropped.items()},
        "noise": noise.to_json(),
    }
    if render:
        say("counting tokens")
        counted = {str(split): tokens.count(found, render) for split, found in rows.items()}
        document["tokens"] = {"model": options.model} | counted
    document |= {split: summary(found) for split, found in rows.items()}
    files = {f"{split}.jsonl": _lines(found, options, noise) for split, found in rows.items()}
    files["data.json"] = json.dumps(document, ensure_ascii=False, indent=2) + "\n"
    write_folder(options.out, files, force=options.force)
    return document


def offices(
    sources: Mapping[str, Source], posteriors: Mapping[str, Posterior], split: Split
) -> Offices:
    """A desk for every source, and its licence."""
    found = {}
    for name, source in sources.items():
        intents = set(posteriors[name].intents)
        labels = {m.intent for m in source.splits[split]} - {OUT_OF_SCOPE}
        if unknown := sorted(labels - intents):
            raise DataError(
                f'{name}: the {split} split has the intent "{unknown[0]}", '
                "of which there are no training messages."
            )
        desk = Desk(name, catalogue(name, intents), posteriors[name], source.splits[split])
        found[name] = (desk, source.licence)
    return found


def check(rows: Mapping[Split, Sequence[Row]]) -> None:
    """Raise DataError if a family is empty, or if two splits share a message or a state."""
    for split, found in rows.items():
        there = {draft.family for row in found for draft in row.drafts.values()}
        empty = [family for family in FAMILIES if family not in there]
        if empty and split == "train":
            raise DataError(f"No {split} row is of the family {empty[0]}. Ask for more states.")
    for place, split in enumerate(SPLITS):
        for other in SPLITS[place + 1 :]:
            for what in ("messages", "group"):
                if _of(rows[split], what) & _of(rows[other], what):
                    raise DataError(f"The {split} and {other} splits share a state.")


def _only(rows: Sequence[Row], families: Collection[str]) -> list[Row]:
    """The rows that have questions of these families, with no other questions."""
    kept = []
    for row in rows:
        drafts = {name: d for name, d in row.drafts.items() if d.family in families}
        if drafts:
            kept.append(replace(row, drafts=drafts))
    return kept


def _of(rows: Sequence[Row], what: str) -> set[str]:
    if what == "group":
        return {row.group for row in rows}
    return {key for row in rows for key in row.messages}


def _lines(rows: Sequence[Row], options: Options, noise: Noise) -> str:
    lines = []
    for row in rows:
        weights = {}
        for name, draft in row.drafts.items():
            if row.split == "test":
                weights[name] = 1.0  # what is measured counts alike
            elif options.weights == "fixed":
                weights[name] = fixed_weight(draft)
            else:
                weights[name] = noise.weight(row.source, draft)
        lines.append(row.line(weights) + "\n")
    return "".join(lines)
