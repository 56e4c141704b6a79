"""`readoff decide`: the JSON request of the wire contract in, its JSON response out."""

from __future__ import annotations

import codecs
import sys
from pathlib import Path
from typing import Annotated

import typer

from readoff.commands import options
from readoff.commands.output import print_json
from readoff.engine import wire


def decide(
    request: Annotated[
        str,
        typer.Option(
            "--request", "-r", metavar="FILE", help="The request as JSON; - reads standard input."
        ),
    ],
    model: options.Model = "demo",
    adapter: options.Adapter = None,
    card: options.CardPath = None,
    revision: options.Revision = None,
    device: options.Device = "auto",
    dtype: options.DtypeOption = options.Dtype.AUTO,
    threads: options.Threads = None,
    legal_mass: Annotated[
        bool, typer.Option("--legal-mass", help="Add x_legal_mass to every answer.")
    ] = False,
) -> None:
    """Answer the questions of one JSON request.

    Example:

        readoff decide --request request.json

        cat request.json | readoff decide --model demo --request -

    The model is the one named by --model; a model named inside the request is an alias for it.
    """
    parsed = wire.parse_request(wire.loads(_read(request)))
    engine = options.load_engine(
        model,
        adapter=adapter,
        card=card,
        revision=revision,
        device=device,
        dtype=dtype,
        threads=threads,
    )
    decision = engine.decide(parsed.state, parsed.questions, legal_mass=legal_mass)
    print_json(wire.render_response(decision, decision.model))


def _read(name: str) -> bytes:
    """The request's bytes, without the byte order mark that some editors put in front."""
    try:
        data = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
    except OSError as error:
        raise typer.BadParameter(
            f"{name!r} can't be read ({error.strerror}).", param_hint="--request"
        ) from None
    return data.removeprefix(codecs.BOM_UTF8)
