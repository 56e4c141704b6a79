"""`readoff calibrate`: labelled decisions in; a decision card and a report out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from readoff.commands import options

OUT = Path("readoff-calibration")


def calibrate(
    data: Annotated[
        Path, typer.Argument(metavar="DATA.jsonl", help="Labelled decisions.", show_default=False)
    ],
    model: options.TorchModel = "demo",
    out: Annotated[
        Path, typer.Option(metavar="DIR", file_okay=False, help="Where card and report go.")
    ] = OUT,
    adapter: options.Adapter = None,
    card: options.CardPath = None,
    revision: options.Revision = None,
    device: options.Device = "auto",
    dtype: options.DtypeOption = options.Dtype.AUTO,
    threads: options.Threads = None,
    method: Annotated[
        Literal["type", "options", "field", "shrunk"],
        typer.Option(help="Temperatures by type (as published), finer, or shrunk between these."),
    ] = "shrunk",
    prior: Annotated[
        bool, typer.Option("--prior", help="Fit a prior in raw logits first: answers may change.")
    ] = False,
    debias: Annotated[
        Literal["none", "prior", "rotate", "both"],
        typer.Option(help="Debias without labels before anything is fitted."),
    ] = "none",
    rotations: Annotated[
        int, typer.Option(metavar="K", min=1, help="Orders of a choice's options, for rotate.")
    ] = 4,
    gate: Annotated[
        str | None,
        typer.Option(
            metavar="RULE",
            help="cost:WRONG,ESCALATED · risk:ALPHA,BETA · coverage:SHARE",
            show_default=False,
        ),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="The same seed, the same folds.")] = 0,
    json_output: options.Json = False,
) -> None:
    """Fit temperatures, and if asked a prior and a gate, to labelled decisions.

    DIR gets decision.json (for --card and from_pretrained(card=)), beside it calibration.json and
    label_space.json where these can say the same (--method type), report.html, report.md and
    result.json, and the logits, which the next call with the same model and data reads instead of
    running the model. Everything the report tells of "after" is out of fold.

    A gate by risk makes a promise: P(error among accepted > ALPHA) ≤ BETA, for a random decision of
    a random state. It takes half of the decisions, and says so where there are too few for any; a
    field with too few accepts nothing.

    Examples:

        readoff calibrate decisions.jsonl --model demo --out calibrated

        readoff calibrate decisions.jsonl --prior --gate risk:0.1,0.1 --out calibrated

        readoff calibrate decisions.jsonl --debias both --gate cost:10,1 --json

        readoff decide --request request.json --card calibrated/decision.json
    """
    from readoff.commands.calibrate_run import Chosen, run

    run(
        Chosen(
            data=data,
            model=model,
            out=out,
            adapter=adapter,
            card=card,
            revision=revision,
            device=device,
            dtype=dtype,
            threads=threads,
            method=method,
            prior=prior,
            debias=debias,
            rotations=rotations,
            gate=gate,
            seed=seed,
        ),
        json_output=json_output,
    )
