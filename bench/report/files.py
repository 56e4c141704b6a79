"""The three files of a run: result.json, report.md and report.html."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from readoff.bench.report import html, markdown
from readoff.bench.report.document import Document
from readoff.bench.report.result import write_text
from readoff.bench.report.sections import page

RESULT = "result.json"


def write_result(folder: Path, document: Document) -> Path:
    """Write result.json alone: quick, so that it can be done after every workload."""
    path = folder / RESULT
    write_text(path, line(document) + "\n")
    return path


def write_all(folder: Path, document: Document) -> list[Path]:
    """Write the three files, result.json first. Raises ReadoffError as `write_text` does."""
    made = page(document)
    paths = [write_result(folder, document)]
    for name, text in (
        ("report.md", markdown.render(made)),
        ("report.html", html.render(made)),
    ):
        write_text(folder / name, text)
        paths.append(folder / name)
    return paths


def line(document: Document | dict[str, Any]) -> str:
    """The document in one line of ASCII: any terminal and any parser takes it."""
    return json.dumps(document, allow_nan=False)
