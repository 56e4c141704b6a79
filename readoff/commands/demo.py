"""`readoff demo`: real decisions on real text, and how long the usual way takes for the same."""

from __future__ import annotations

from typing import Annotated

import typer

from readoff.commands import options
from readoff.commands.demo_report import as_json, show
from readoff.commands.demo_run import run
from readoff.commands.output import print_json


def demo(
    model: options.TorchModel = "demo",
    device: options.Device = "auto",
    dtype: options.DtypeOption = options.Dtype.AUTO,
    threads: options.Threads = None,
    repeats: Annotated[
        int, typer.Option(min=1, help="Rounds of measurements (at most a minute is spent).")
    ] = 3,
    generate: Annotated[
        bool,
        typer.Option(
            "--generate/--no-generate", help="Answer by greedy JSON generation too, and compare."
        ),
    ] = True,
    json_output: options.Json = False,
) -> None:
    """Twelve decisions about three states, then the same by JSON generation.

    The demonstration model is fetched into your cache first (0.5 GB, once).

    Example:

        readoff demo --json > demo.json
    """
    # Every round starts cold: what is shown are passes, not the cache.
    engine = options.load_engine(model, device=device, dtype=dtype, threads=threads, cache_bytes=0)
    if generate and not json_output:  # the decisions at once; the slow comparison after them
        show(run(engine, model, repeats=1, generate=False))
        typer.echo("\nThe same questions by JSON generation, in turns with the read-off:\n")
    report = run(engine, model, repeats=repeats, generate=generate)
    if json_output:
        print_json(as_json(report))
    else:
        show(report)
