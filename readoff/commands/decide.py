"""`readoff decide`: the JSON request of the wire contract in, its JSON response out."""

from __future__ import annotations

import codecs
import os
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from readoff.commands import options
from readoff.commands.download import fetch_demo_for
from readoff.commands.output import print_json
from readoff.engine import wire
from readoff.engine.card import Card
from readoff.engine.escalation_http import ChatEscalation
from readoff.engine.policy import Policy, Wishes
from readoff.engine.strict_json import loads
from readoff.export.pack import is_pack


class Debias(StrEnum):
    """The ways of debiasing without labels."""

    NONE = "none"
    PRIOR = "prior"
    ROTATE = "rotate"
    BOTH = "both"


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
    quantize: options.Quantize = None,
    deterministic: options.Deterministic = False,
    legal_mass: Annotated[
        bool,
        typer.Option(
            "--legal-mass",
            help="Add x_legal_mass to every answer, as a request's x_legal_mass does.",
        ),
    ] = False,
    debias: Annotated[
        Debias | None,
        typer.Option("--debias", help="Without labels; by default what the decision card says."),
    ] = None,
    rotations: Annotated[
        int | None,
        typer.Option(
            "--rotations",
            metavar="N",
            min=1,
            help="Orders of a choice's options under rotate and both; by default the card's.",
        ),
    ] = None,
    gate: Annotated[
        float | None,
        typer.Option(
            "--gate",
            metavar="P",
            help="Accept answers whose largest probability is at least P (x_accept); by default "
            "the card's gate, where --debias and --rotations are the card's too.",
        ),
    ] = None,
    escalate_url: Annotated[
        str | None,
        typer.Option(
            "--escalate-url",
            metavar="URL",
            help="Ask this chat endpoint what the gate doesn't accept. A key is taken from "
            "READOFF_ESCALATION_KEY.",
        ),
    ] = None,
    escalate_model: Annotated[
        str, typer.Option("--escalate-model", metavar="NAME", help="The model's name there.")
    ] = "default",
) -> None:
    """Answer the questions of one JSON request.

    Example:

        readoff decide --request request.json

        cat request.json | readoff decide --model demo --request -

        readoff decide --model demo-base --request request.json --debias prior --gate 0.8

        readoff decide --model my-pack --request request.json

    A pack (`readoff export onnx`) is decided with by ONNX Runtime, without torch.

    The model is the one named by --model; a model named inside the request is an alias for it.
    """
    if gate is not None and not 0.0 <= gate <= 1.0:  # nan too, which click's own check misnames
        raise typer.BadParameter(f"{gate:g} is no number from 0 to 1.", param_hint="--gate")
    content = loads(_read(request))
    parsed = wire.parse_request(content)
    legal_mass = legal_mass or wire.wants_legal_mass(content)
    how = Wishes(debias=None if debias is None else debias.value, rotations=rotations, gate=gate)
    # All that can be wrong with an escalation is told before the model is loaded.
    if escalate_url is not None:
        key = os.environ.get("READOFF_ESCALATION_KEY")
        how["escalate"] = ChatEscalation(escalate_url, escalate_model, key=key)
        if gate is None:
            Policy(_card(model, adapter, card, revision)).plan(**how)
    load = options.load_pack if is_pack(model) else options.load_engine
    engine = load(
        model,
        adapter=adapter,
        card=card,
        revision=revision,
        device=device,
        dtype=dtype,
        threads=threads,
        quantize=quantize,
        deterministic=deterministic,
    )
    decision = engine.decide(
        parsed.state,
        parsed.questions,
        legal_mass=legal_mass,
        debias=how["debias"],
        rotations=rotations,
        gate=gate,
        escalate=how.get("escalate"),
    )
    print_json(wire.render_response(decision, decision.model))


def _card(model: str, adapter: str | None, path: Path | None, revision: str | None) -> Card:
    """The card that the model will be loaded with; no weights are."""
    if path is not None and path.exists():
        return Card.load(path)
    if is_pack(model):
        from readoff.export import runtime
        from readoff.export.pack import read_pack

        return runtime.find_card(read_pack(model), path)
    from readoff.engine.loading import find_card
    from readoff.engine.source import resolve

    fetch_demo_for(model)
    return find_card(resolve(model, adapter, revision), path)


def _read(name: str) -> bytes:
    """The request's bytes, without the byte order mark that some editors put in front."""
    try:
        data = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
    except OSError as error:
        raise typer.BadParameter(
            f"{name!r} can't be read ({error.strerror}).", param_hint="--request"
        ) from None
    return data.removeprefix(codecs.BOM_UTF8)
