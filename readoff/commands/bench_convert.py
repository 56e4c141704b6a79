"""`readoff bench convert`: a public data set as labelled decisions."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from readoff.commands.output import note


def convert(
    name: Annotated[str, typer.Argument(help="The data set, e.g. banking77.", show_default=False)],
    source: Annotated[
        Path, typer.Argument(metavar="PATH", help="Its file or folder.", show_default=False)
    ],
    target: Annotated[
        Path, typer.Argument(metavar="OUT.jsonl", help="What is written.", show_default=False)
    ],
    limit: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="At most N, balanced over the answers.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="The same seed draws the same ones.")] = 0,
) -> None:
    """Write a data set as labelled decisions, for --data.

    Example:

        readoff bench convert banking77 shared/data banking77.jsonl --limit 300
    """
    from readoff.bench.quality.convert import convert as converted
    from readoff.bench.quality.jsonl import write_jsonl

    count = write_jsonl(target, converted(name, source, limit=limit, seed=seed))
    note(f"{count} decisions written to {target}")
