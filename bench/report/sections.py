"""From the document of a run to the page that a report shows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from readoff.bench.report import facts, tables
from readoff.bench.report.blocks import Card, Cards, Page, Paragraph, Pictures, Section
from readoff.bench.report.diagrams import reliability
from readoff.bench.report.document import Document, workloads
from readoff.bench.report.pictures import by_documents, by_questions, by_state, ladder

METHOD = (
    "All rungs answer the same requests with the same weights, number format, device and thread "
    "count, in turns within one run, so that whatever slows the machine for a while slows all of "
    "them. The first round is not counted. Times are of whole requests, prompts and parsing "
    "included, model loading excluded.",
    "Speed-ups are ratios of medians over paired repeats, with a 95 % bootstrap interval in "
    "brackets. A rung is compared with the one below it before it is timed, and a red gate ends "
    "the run: no speed is told of a wrong answer.",
    "ECE has bins of equal mass; beside it stands what perfectly calibrated confidences of the "
    "same sizes would show on a sample of this size, since that is not zero.",
)


EITHER = (
    "With the state warm or with eight questions a request: both cases are shown, each against "
    "strong JSON (L1), which shares the state between its answers too, and against the readout by "
    "transformers (L2t), which does not."
)
NO_DATA = (
    "No labelled data was given, so accuracy and calibration were not measured: name files of "
    "labelled decisions with --data, or make some with readoff bench convert."
)


def page(document: Document) -> Page:
    """Everything there is to show, in the order in which a sceptic asks."""
    settings = document.get("settings") or {}
    machine = document.get("machine") or {}
    lead = [
        f"{settings.get('model', 'model')} on {machine.get('processor') or machine.get('device')}, "
        f"{machine.get('dtype')}, {machine.get('threads')} threads, {_date(document)}"
        f"{', quick run' if settings.get('quick') else ''}, seed {settings.get('seed')}.",
    ]
    warning = ""
    if not document.get("complete"):
        warning = f"This run is not complete: {document.get('stopped') or 'it was stopped'}"
    return Page(
        title="readoff bench",
        lead=lead,
        sections=[section for section in _sections(document) if section.blocks],
        warning=warning,
    )


def _date(document: Document) -> str:
    return str(document.get("started") or "").replace("T", " ")[:16] or "no date"


def _sections(document: Document) -> Iterator[Section]:
    yield _targets(document)
    for workload in workloads(document, "paper"):
        yield _workload(document, workload, f"One question, 400 tokens ({workload['name']})")
    yield _many(document)
    yield _search(document)
    yield _quality(document)
    yield _opponents(document)
    yield Section("Gates", tables.gates(document))
    notes = [Paragraph(note) for note in document.get("notes") or []]
    yield Section("Notes", notes)
    yield Section("Machine and settings", [*facts.machine(document)])
    yield Section("How it was measured", [Paragraph(text) for text in METHOD])


def _targets(document: Document) -> Section:
    """The asked-for ratios: cards for the glance, a table for the reason."""
    found = document.get("targets") or []
    if not found:
        return Section("Targets", [])
    cards = [
        Card(
            f"{row['ratio']:.1f}×",
            row["name"],
            f"{row['workload']}: asked for {row['asked']:g}×, "
            f"{row['low']:.1f} to {row['high']:.1f}",
            bool(row["met"]),
        )
        for row in _first_of_each(found)
    ]
    return Section("Targets", [Cards(cards), *tables.targets(found), Paragraph(EITHER)])


def _first_of_each(rows: list[dict[str, Any]]) -> Iterator[Mapping[str, Any]]:
    seen = set()
    for row in rows:
        if row["name"] not in seen:
            seen.add(row["name"])
            yield row


def _workload(document: Document, workload: Mapping[str, Any], title: str) -> Section:
    picture = ladder(document, workload)
    return Section(
        title,
        [
            *([Pictures([picture])] if picture else []),
            *tables.ladder(document, workload),
        ],
    )


def _many(document: Document) -> Section:
    found = workloads(document, "many")
    pictures = [*by_questions(document), *by_state(document)]
    most = max(found, key=lambda w: w["axes"].get("questions", 0), default=None)
    if most is not None:
        pictures += filter(None, [ladder(document, most)])
    blocks = [Pictures(pictures)] if pictures else []
    return Section(
        "Many questions about one state",
        [
            *blocks,
            *tables.sharing(document),
            *tables.medians(document, found),
            *(tables.ladder(document, most) if most is not None else []),
        ],
    )


def _search(document: Document) -> Section:
    pictures = by_documents(document)
    found = tables.search(document)
    return Section("A search step", [*([Pictures(pictures)] if pictures else []), *found])


def _quality(document: Document) -> Section:
    rows = document.get("quality") or []
    if not rows:
        return Section("Quality and calibration", [Paragraph(NO_DATA)])
    pictures = [p for p in map(reliability, rows) if p is not None]
    return Section(
        "Quality and calibration",
        [*facts.quality(rows), *([Pictures(pictures)] if pictures else [])],
    )


def _opponents(document: Document) -> Section:
    return Section("Opponents over HTTP", [*facts.opponents(document.get("opponents") or [])])
