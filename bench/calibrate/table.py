"""Before and after on public data: calibration by family, debiasing by data set.

`python -m readoff.bench.calibrate.table --data FOLDER --out DIR` converts the data sets, runs the
model once over each (logits are kept in DIR) and writes DIR/table.md.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from readoff.bench.bootstrap import Estimate, Floats, percentile, resampled
from readoff.bench.calibrate.cache import cache_path, load_rows, save_rows
from readoff.bench.calibrate.collect import collect
from readoff.bench.calibrate.figures import outcomes_of
from readoff.bench.calibrate.fit import Recipe, calibrated, out_of_fold
from readoff.bench.calibrate.rows import PAD, Rows, padded
from readoff.bench.metrics import Quality, measure
from readoff.bench.quality.convert import CONVERTERS, convert
from readoff.bench.records import Ask
from readoff.bench.report.blocks import Table
from readoff.bench.report.markdown import render_table
from readoff.bench.report.result import write_text
from readoff.engine.card_fields import DEBIAS, Debias, Prior, Temperature
from readoff.engine.debias import expand
from readoff.engine.engine import Engine
from readoff.engine.prompt import Renderer
from readoff.engine.questions import Choice
from readoff.engine.text import Text


@dataclass(frozen=True)
class Planned:
    """A data set: how many of its decisions, in how many orders, and how many of them are asked
    about with their options in the reversed order too, to count flips."""

    name: str
    limit: int
    rotations: int = 4
    flips: int = 0


PLAN = (
    Planned("intent_recognition", 140, flips=50),
    Planned("banking77", 40, rotations=2),
    Planned("entailed_polarity", 148),
    Planned("analytic_entailment", 70),
    Planned("presuppositions_as_nli", 120, flips=60),
    Planned("metaphor_boolean", 100),
    Planned("cranfield", 60),
    Planned("evaluating_information_essentiality", 68),
    Planned("question_selection", 40, rotations=2),
)
ORDERS = ("given", "reversed")


@dataclass(frozen=True)
class Collected:
    """The logits of one data set by mode, in the given order and in the reversed one, and the
    tokens of a decision by mode, the content-free pass left out."""

    name: str
    given: Mapping[Debias, Rows]
    reverse: Mapping[Debias, Rows] | None
    tokens: Mapping[Debias, float]


def collected(
    engine: Callable[[], Engine],
    renderer: Renderer,
    planned: Planned,
    data: Path,
    folder: Path,
    model: Mapping[str, object],
    seed: int = 0,
) -> Collected:
    """The logits of one data set, from `folder` where they are there. `model` names the digests."""
    asks = convert(planned.name, data, limit=planned.limit, seed=seed)
    found: list[dict[Debias, Rows]] = []
    for order in ORDERS[: 2 if planned.flips else 1]:
        paths = {mode: rows_path(folder, planned, order, mode, model, seed) for mode in DEBIAS}
        rows = {mode: kept for mode, path in paths.items() if (kept := load_rows(path)) is not None}
        if len(rows) < len(DEBIAS):
            some = asks
            if order == "reversed":
                some = [backwards(ask) for ask in asks[: planned.flips]]
            print(f"{planned.name}, options {order}: {len(some)} decisions", file=sys.stderr)
            rows = collect(engine(), some, DEBIAS, rotations=planned.rotations)
            for mode, path in paths.items():
                save_rows(path, rows[mode])
        found.append(rows)
    tokens = {mode: _tokens(renderer, asks, mode, planned.rotations) for mode in DEBIAS}
    return Collected(planned.name, found[0], found[1] if planned.flips else None, tokens)


def rows_path(
    folder: Path,
    planned: Planned,
    order: str,
    mode: Debias,
    model: Mapping[str, object],
    seed: int,
) -> Path:
    """Where these logits are kept."""
    of = {"name": planned.name, "limit": planned.limit, "rotations": planned.rotations}
    return cache_path(folder, {**model, **of, "seed": seed, "order": order, "mode": mode})


def backwards(ask: Ask) -> Ask:
    """The same request with the options of every choice in the reversed order."""
    questions = {
        name: Choice(instructions=q.instructions, criteria=dict(list(q.criteria.items())[::-1]))
        if isinstance(q, Choice)
        else q
        for name, q in ask.questions.items()
    }
    return replace(ask, questions=questions)


def pooled(parts: Mapping[str, Rows]) -> Rows:
    """Rows of several data sets, each a field called after it; states are those of their own."""
    starts = np.cumsum([0, *(int(rows.state.max()) + 1 for rows in parts.values())])
    rows = list(parts.values())
    return Rows(
        fields=tuple(name for name, some in parts.items() for _ in range(len(some))),
        types=tuple(kind for some in rows for kind in some.types),
        options=tuple(options for some in rows for options in some.options),
        sizes=np.concatenate([some.sizes for some in rows]),
        z=padded([line[:n] for some in rows for line, n in _lines(some.z, some)], PAD),
        target=padded([line[:n] for some in rows for line, n in _lines(some.target, some)], 0.0),
        weight=np.concatenate([some.weight for some in rows]),
        state=np.concatenate([some.state + at for some, at in zip(rows, starts, strict=False)]),
    )


def flips(given: Rows, reverse: Rows, *, seed: int = 0) -> Estimate:
    """The share of decisions that change when the options are listed backwards.

    `reverse` has the first rows of `given`, or all of them.
    """
    given = given.where(np.arange(len(given)) < len(reverse))
    answers = [
        [options[i] for options, i in zip(rows.options, rows.z.argmax(axis=1), strict=True)]
        for rows in (given, reverse)
    ]
    changed = np.array([a != b for a, b in zip(*answers, strict=True)], np.float64)
    group = np.unique(given.state, return_inverse=True)[1].astype(np.int64)
    spread = resampled(lambda times: np.array([(changed * times).sum() / times.sum()]), group)
    return percentile(float(changed.mean()), spread[:, 0])


def calibration_table(found: Sequence[Collected]) -> Table:
    """Log loss and calibration error by family, raw and out of fold."""
    families: dict[str, dict[str, Rows]] = {}
    for one in found:
        families.setdefault(CONVERTERS[one.name][0], {})[one.name] = one.given["none"]
    lines = []
    for family, parts in families.items():
        rows = pooled(parts)
        before = _quality(rows, calibrated(rows, Prior(), Temperature()))
        after = _quality(rows, out_of_fold(rows, Recipe()))
        prior = _quality(rows, out_of_fold(rows, Recipe(prior=True)))
        lines.append(
            [
                family,
                ", ".join(parts),
                str(len(rows)),
                *(_told(q.distribution_nll) for q in (before, after, prior)),
                *(_value(q.ece) for q in (before, after, prior)),
                _value(after.calibrated_ece),
                *(_value(q.accuracy) for q in (before, prior)),
            ]
        )
    head = ["family", "data", "decisions", "NLL raw", "NLL temperature", "NLL prior + temperature"]
    head += ["ECE raw", "ECE temperature", "ECE prior + temperature", "ECE if calibrated"]
    head += ["accuracy raw", "accuracy prior"]
    return Table(head, lines, left=frozenset({0, 1}))


def debias_table(found: Sequence[Collected]) -> Table:
    """Accuracy, flips, calibrated log loss and cost of every way of debiasing, by data set."""
    lines = []
    for one in found:
        for mode in DEBIAS:
            rows = one.given[mode]
            same = mode in ("rotate", "both") and "choice" not in rows.types
            if same:  # nothing to rotate: "rotate" is "none", "both" is "prior"
                continue
            p = out_of_fold(rows, Recipe("type"))
            after = _quality(rows, p)
            turned = None if one.reverse is None else flips(rows, one.reverse[mode])
            lines.append(
                [
                    one.name,
                    mode,
                    str(len(rows)),
                    _told(after.accuracy),
                    "–" if turned is None else _told(turned),
                    _told(after.distribution_nll),
                    _value(after.ece),
                    f"{one.tokens[mode]:.0f}",
                ]
            )
    head = ["data", "debias", "decisions", "accuracy", "order flips", "NLL", "ECE"]
    head += ["tokens a decision"]
    return Table(head, lines, left=frozenset({0, 1}))


def main(arguments: Sequence[str] | None = None) -> None:
    """Command line."""
    from readoff.engine.loading import find_card, load_renderer
    from readoff.engine.source import resolve

    parser = argparse.ArgumentParser(prog="python -m readoff.bench.calibrate.table")
    parser.add_argument("--data", type=Path, required=True, help="folder of the public data sets")
    parser.add_argument("--out", type=Path, required=True, help="where logits and the table go")
    parser.add_argument("--model", default="demo-base")
    parser.add_argument("--threads", type=int, default=None)
    chosen = parser.parse_args(arguments)
    checkpoint = resolve(chosen.model)
    renderer = load_renderer(checkpoint, find_card(checkpoint))
    model = {"weights": checkpoint.weights_digest(), "template": renderer.template.digest}
    loaded: list[Engine] = []

    def engine() -> Engine:
        if not loaded:
            loaded.append(Engine.from_pretrained(chosen.model, threads=chosen.threads))
        return loaded[0]

    found = [
        collected(engine, renderer, planned, chosen.data, chosen.out, model) for planned in PLAN
    ]
    text = "\n\n".join(
        "\n".join(render_table(table)) for table in (calibration_table(found), debias_table(found))
    )
    write_text(chosen.out / "table.md", text + "\n")
    print(text)


def _lines(columns: Floats, rows: Rows) -> list[tuple[list[float], int]]:
    return list(zip(columns.tolist(), rows.sizes.tolist(), strict=True))


def _quality(rows: Rows, p: Floats) -> Quality:
    return measure(outcomes_of(rows, p), "readout")


def _tokens(renderer: Renderer, asks: Sequence[Ask], mode: Debias, rotations: int) -> float:
    """The distinct tokens of a decision's prompts, on average."""

    def count(state: Text, ask: Ask) -> int:
        prompts = renderer.render(state, expand(ask.questions, mode, rotations).asked)
        return sum(len(ids) for ids in {piece.ids for prompt in prompts for piece in prompt.pieces})

    return sum(count(ask.state, ask) for ask in asks) / len(asks)


def _told(found: Estimate | None) -> str:
    return "–" if found is None else f"{found.value:.3f} [{found.low:.3f}, {found.high:.3f}]"


def _value(found: Estimate | None) -> str:
    return "–" if found is None else f"{found.value:.3f}"


if __name__ == "__main__":
    main()
