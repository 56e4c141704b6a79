"""evaluation.md: losses first, then the gates, then every table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from readoff.bench.report.blocks import Table
from readoff.bench.report.markdown import render_table
from readoff.learn.evaluate.contender import JSON
from readoff.learn.evaluate.scope import SAMPLE, TEST, UNSEEN

Document = Mapping[str, Any]

TITLES = {
    TEST: "Test split",
    TEST + SAMPLE: "Test split, the decisions that greedy JSON answered too",
    UNSEEN: "Tasks that training never saw",
    UNSEEN + SAMPLE: "Unseen tasks, the decisions that greedy JSON answered too",
}


def report(document: Document, pictures: Sequence[tuple[str, str]]) -> str:
    """The whole report. `pictures` are (file name, what it shows)."""
    lines = ["# Evaluation of an adapter", ""]
    lines += [*losses(document), "", "## What it had to show", "", *gates_table(document), ""]
    lines += ["## How", "", *how(document), ""]
    for scope in document["scopes"]:
        lines += [f"## {TITLES[scope['name']]}", ""]
        lines += [population(scope), ""]
        lines += [*render_table(figures_table(scope)), "", "Differences, paired:", ""]
        lines += [*render_table(paired_table(scope)), ""]
    if pictures:
        lines += ["## Pictures", ""]
        for name, alt in pictures:
            lines += [f"![{_bracketless(alt)}]({name})", ""]
    return "\n".join(lines).rstrip() + "\n"


def losses(document: Document) -> Iterator[str]:
    """Where the adapter lost against the model without it, unseen tasks before the test split."""
    found = document["losses"]
    scopes = {scope["name"] for scope in document["scopes"]}
    if UNSEEN not in scopes:
        yield "**Tasks that training never saw were not evaluated.**"
        yield ""
    if not found:
        yield "**No loss against zero-shot** on any family or task evaluated."
        return
    yield f"**Losses against zero-shot: {len(found)}.**"
    yield ""
    rows = [
        [
            TITLES[row["scope"]],
            row["slice"],
            row["contender"],
            f"{'NLL' if row['figure'] == 'nll' else 'accuracy'} {row['difference']:+.3f}"
            + _interval(row["interval"], signed=True),
            "beyond it" if row["beyond_noise"] else "within it",
            str(row["decisions"]),
        ]
        for row in found
    ]
    head = ["where", "slice", "contender", "difference", "noise", "decisions"]
    yield from render_table(Table(head, rows, left=frozenset({0, 1, 2, 4})))


def gates_table(document: Document) -> Iterator[str]:
    """Each gate with its verdict."""
    rows = [[g["name"], g["asked"], g["found"], g["verdict"]] for g in document["gates"]]
    yield from render_table(
        Table(["gate", "asked", "found", "verdict"], rows, left=frozenset({0, 1, 2, 3}))
    )


def how(document: Document) -> Iterator[str]:
    """What was compared, on what, and with which settings."""
    for one in document["contenders"]:
        yield f"- **{one['name']}**: {one['about']}"
    files = ", ".join(f"{f['name']} ({f['decisions']} decisions)" for f in document["files"])
    yield f"- Data: {files}."
    yield (
        f"- Model {document['model']} in {document['dtype']}, seed {document['seed']}, "
        f"{document['resamples']} bootstrap resamples by state; intervals hold 95 %."
    )
    temperatures = document["temperatures"]
    if temperatures is not None:
        told = ", ".join(f"{kind} {value:.3f}" for kind, value in temperatures["values"].items())
        yield f"- Temperatures ({temperatures['source']}): {told}."
    for text in document["notes"]:
        yield f"- {text}"


def population(scope: Mapping[str, Any]) -> str:
    """How many decisions, and what became of the JSON's answers among them."""
    text = f"{scope['decisions']} decisions about {scope['states']} states."
    for row in scope["rows"]:
        if (row["kind"], row["contender"]) == ("all", JSON):
            text += (
                f" {scope['unusable_json']} JSON answers named no legal option; in "
                f"{row['floored']:.1%} of all its decisions a probability of 0 met the truth."
            )
    return text


def figures_table(scope: Mapping[str, Any]) -> Table:
    """Every slice and contender."""
    rows = [
        [
            row["kind"],
            row["slice"],
            row["contender"],
            str(row["decisions"]),
            *(_told(row, name) for name in ("accuracy", "nll", "brier", "ece")),
            "–" if row["ece_if_calibrated"] is None else f"{row['ece_if_calibrated']:.3f}",
        ]
        for row in scope["rows"]
    ]
    head = ["by", "slice", "contender", "decisions", "accuracy", "NLL", "Brier", "ECE"]
    return Table([*head, "ECE if calibrated"], rows, left=frozenset({0, 1, 2}))


def paired_table(scope: Mapping[str, Any]) -> Table:
    """Differences of two contenders."""
    rows = [
        [
            row["kind"],
            row["slice"],
            f"{row['a']} less {row['b']}",
            str(row["decisions"]),
            *(
                f"{row[name]:+.3f}{_interval(row[f'{name}_interval'], signed=True)}"
                for name in ("accuracy", "nll")
            ),
        ]
        for row in scope["paired"]
    ]
    head = ["by", "slice", "difference of", "decisions", "accuracy", "NLL"]
    return Table(head, rows, left=frozenset({0, 1, 2}))


def _told(row: Mapping[str, Any], name: str) -> str:
    value = row[name]
    return "–" if value is None else f"{value:.3f}{_interval(row[f'{name}_interval'])}"


def _interval(ends: Sequence[float] | None, *, signed: bool = False) -> str:
    if ends is None:
        return ""
    low, high = (f"{end:+.3f}" if signed else f"{end:.3f}" for end in ends)
    return f" [{low}, {high}]"


def _bracketless(text: str) -> str:
    return text.replace("[", "(").replace("]", ")")
