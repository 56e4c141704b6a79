"""From the document of a calibration to its report."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from readoff.bench.calibrate.document import label
from readoff.bench.calibrate.pictures import Drawn, pictures
from readoff.bench.report import html, markdown
from readoff.bench.report.blocks import Card, Cards, Page, Paragraph, Pictures, Section, Table
from readoff.bench.report.result import write_text
from readoff.engine.errors import ReadoffError

METHOD = (
    'Every figure of "after" is out of fold: the decisions were answered by a fit that saw neither '
    "them nor their states. What cross-validation chooses (how far the finer temperatures are "
    "drawn to the coarser ones, how strongly a prior is held back) is chosen anew within each "
    "training part.",
    'NLL is over all options; Brier is that of the event "the answer is right". ECE is adaptive: '
    "bins of equal mass. Beside it stands what a perfectly calibrated model shows on a sample of "
    "this size, since that is not zero. Classwise ECE is the mean over classes of the error of "
    "their own probability. Intervals are 95 %, bootstrapped over states.",
    "Proposition 1 is for binary decisions: with utilities from 0 to U, acting on the calibrated "
    "score loses at most 2·U·ECE. The loss is counted for 1 if right and 0 if wrong, on bins of "
    "equal mass.",
)


def write_report(folder: Path, document: Mapping[str, Any]) -> list[Path]:
    """Write report.md, report.html and the pictures as PNG. Raises ReadoffError."""
    drawn = list(pictures(document))
    made = page(document, drawn)
    paths = []
    for name, text in (
        ("report.md", markdown.render(made)),
        ("report.html", html.render(made)),
    ):
        write_text(folder / name, text)
        paths.append(folder / name)
    for one in drawn:
        path = folder / f"{one.picture.name}.png"
        try:
            path.write_bytes(one.png)
        except OSError as error:
            raise ReadoffError(
                f"{path} can't be written ({error.strerror or error}). "
                "Free some space there, or name another folder with --out."
            ) from error
        paths.append(path)
    return paths


def page(document: Mapping[str, Any], drawn: Sequence[Drawn]) -> Page:
    """The whole report."""
    lead = [
        f"{document.get('model')} on {document['decisions']} labelled decisions about "
        f"{document['states']} states ({document.get('data')}), debiasing: "
        f"{document.get('debias', 'none')}."
    ]
    return Page("readoff calibrate", lead, [s for s in _sections(document, drawn) if s.blocks])


def _sections(document: Mapping[str, Any], drawn: Sequence[Drawn]) -> Iterator[Section]:
    whole = document["parts"][0]
    yield Section("Before and after", [Cards(list(_cards(whole))), _figures(document)])
    yield Section("Pictures", [Pictures([one.picture for one in drawn])])
    yield Section("Calibration error in detail", [_errors(document), _brier(document)])
    yield Section("What was fitted", [_temperatures(document), *_priors(document)])
    yield Section("Other ways", [_recipes(document)])
    yield Section("The gate", list(_gate(document)))
    yield Section("What acting on the score can cost", list(_proposition(document)))
    yield Section("Notes", [Paragraph(text) for text in document["notes"]])
    yield Section("How it was measured", [Paragraph(text) for text in (*METHOD, _fitted(document))])


def _fitted(document: Mapping[str, Any]) -> str:
    gate = document["gate"]
    if gate is None or gate["entry"]["fitted"]["decisions"] == document["decisions"]:
        return "The card itself is fitted to everything."
    return (
        "The card itself is fitted to half of the states, and its gate chosen on the other half "
        "alone, which the promise needs."
    )


def _cards(whole: Mapping[str, Any]) -> Iterator[Card]:
    before, after = whole["before"], whole["after"]
    for key, title in (("nll", "NLL"), ("ece", "ECE"), ("brier", "Brier"), ("aurc", "AURC")):
        better = after[key] < before[key]
        yield Card(f"{after[key]:.3f}", title, f"before {before[key]:.3f}", better)
    yield Card(f"{after['accuracy']:.1%}", "accuracy", f"before {before['accuracy']:.1%}")


def _figures(document: Mapping[str, Any]) -> Table:
    rows = []
    for part in document["parts"]:
        for when in ("before", "after"):
            row = part[when]
            cells = [_with(row, key) for key in ("accuracy", "nll", "brier", "ece")]
            rows.append(
                [part["name"], when, str(part["decisions"]), *cells, _n(row["calibrated_ece"])]
            )
    head = ["decisions", "", "number", "accuracy", "NLL", "Brier", "ECE", "ECE if calibrated"]
    return Table(head, rows, left=frozenset({0, 1}))


def _errors(document: Mapping[str, Any]) -> Table:
    rows = []
    for part in document["parts"]:
        for when in ("before", "after"):
            row = part[when]
            pairs = [
                f"{_n(row[key])} ({_n(row[f'calibrated_{key}'])})"
                for key in ("ece", "width_ece", "classwise_ece")
            ]
            rows.append([part["name"], when, *pairs, _n(row["aurc"]), _n(row["best_aurc"])])
    head = ["decisions", "", "equal mass", "equal width", "classwise", "AURC", "best AURC"]
    caption = "Calibration errors, in brackets what a perfectly calibrated model would show"
    return Table(head, rows, left=frozenset({0, 1}), caption=caption)


def _brier(document: Mapping[str, Any]) -> Table:
    rows = []
    for part in document["parts"]:
        for when in ("before", "after"):
            parts = part[when]["brier_parts"]
            rows.append(
                [
                    part["name"],
                    when,
                    _n(part[when]["brier"]),
                    *(
                        f"{parts[key]:.4f}"
                        for key in ("reliability", "resolution", "uncertainty", "within")
                    ),
                ]
            )
    head = ["decisions", "", "Brier", "reliability", "resolution", "uncertainty", "within bins"]
    caption = "Brier = reliability − resolution + uncertainty + within bins"
    return Table(head, rows, left=frozenset({0, 1}), caption=caption)


def _temperatures(document: Mapping[str, Any]) -> Table:
    rows = [
        [label(one), f"{one['value']:.3f}", _span(one["low"], one["high"]), str(one["count"])]
        for one in document["temperatures"]
    ]
    caption = f"Temperatures; shrinkage κ = {document['kappa']}"
    return Table(["of", "temperature", "95 %", "decisions"], rows, caption=caption)


def _priors(document: Mapping[str, Any]) -> Iterator[Table]:
    rows = [
        [
            label(one),
            str(one["count"]),
            f"{one['ridge']:g}",
            ", ".join(
                f"{b:+.2f} ± {m:.2f}" for b, m in zip(one["values"], one["margin"], strict=True)
            ),
        ]
        for one in document["priors"]
    ]
    if rows:
        caption = "Priors in raw logits, in the order of the options"
        yield Table(
            ["of", "decisions", "ridge", "prior"], rows, left=frozenset({0, 3}), caption=caption
        )


def _recipes(document: Mapping[str, Any]) -> Table:
    rows = [
        [one["name"], f"{one['nll']:.4f}", f"{one['accuracy']:.1%}"] for one in document["recipes"]
    ]
    return Table(["way", "NLL", "accuracy"], rows, caption="All decisions, out of fold")


def _gate(document: Mapping[str, Any]) -> Iterator[Table | Paragraph]:
    gate = document["gate"]
    if gate is None:
        return
    rows = [
        [
            one["key"],
            "accepts nothing" if one["threshold"] is None else f"{one['threshold']:.4f}",
            f"{one['coverage']:.1%}",
            "–" if one["risk"] is None else f"{one['risk']:.1%}",
            one["why"],
        ]
        for one in gate["thresholds"]
    ]
    head = ["of", "threshold", "accepted", "wrong of these", "why"]
    yield Table(head, rows, left=frozenset({0, 4}))
    for text in gate["notes"]:
        yield Paragraph(text)


def _proposition(document: Mapping[str, Any]) -> Iterator[Table]:
    rows = [
        [
            part["name"],
            *(f"{part['proposition_1'][key]:.4f}" for key in ("ece", "bound", "realised")),
        ]
        for part in document["parts"]
        if part["proposition_1"] is not None
    ]
    if rows:
        head = ["binary decisions", "ECE", "bound 2·U·ECE", "realised loss"]
        yield Table(head, rows, caption="Utility lost a decision, U = 1")


def _with(row: Mapping[str, Any], key: str) -> str:
    low, high = row[f"{key}_interval"] or (None, None)
    return _n(row[key]) + ("" if low is None else f" {_span(low, high)}")


def _span(low: float | None, high: float | None) -> str:
    return "–" if low is None or high is None else f"[{low:.3f}, {high:.3f}]"


def _n(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"
