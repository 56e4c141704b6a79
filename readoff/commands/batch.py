"""`readoff batch`: a file of requests in, a file of answers out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from readoff.commands import options
from readoff.commands.output import note, print_json

if TYPE_CHECKING:
    from readoff.engine.engine import Engine
    from readoff.export.runtime import OnnxEngine


def batch(
    source: Annotated[
        str,
        typer.Argument(metavar="IN.jsonl", help="Requests, one a line; - reads standard input."),
    ],
    out: Annotated[
        str,
        typer.Argument(metavar="OUT.jsonl", help="Answers, one a line; - is standard output."),
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
        typer.Option("--legal-mass", help="Add x_legal_mass to every answer, not only if asked."),
    ] = False,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on where OUT.jsonl ends, if it is there.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace OUT.jsonl.")] = False,
    strict: Annotated[
        bool, typer.Option("--strict", help="Stop at the first request that is wrong.")
    ] = False,
    chunk: Annotated[
        int,
        typer.Option(metavar="N", min=1, max=1024, help="Requests that are answered together."),
    ] = 128,
    json_output: options.Json = False,
) -> None:
    """Answer a file of requests, one a line, in order: line N of OUT.jsonl answers line N.

    A line is a JSON request as `readoff decide` and the server take it. Its "id", if it has one,
    comes back as "x_id". What is wrong with a request is told in its place, as {"error": …}, and
    counted; the others are answered all the same. A model named in a request is an alias for
    --model.

    An interrupted run leaves whole lines; --resume goes on after them, and refuses another input,
    model or card ("x_request" in each answer stands for these; a model's files are told apart by
    name, size and time). The errors among them count. What requests of a run have in
    common is computed once: keep those about one state together.

    Exit code: 0 if every request was answered, 1 if one wasn't.

    Examples:

        readoff batch requests.jsonl answers.jsonl

        readoff batch requests.jsonl answers.jsonl --model ./my-model --resume --json

        cat requests.jsonl | readoff batch - - > answers.jsonl
    """
    from readoff.commands.batch_files import Lines, Output
    from readoff.commands.batch_run import run
    from readoff.commands.batch_salt import salt
    from readoff.export.pack import is_pack

    if resume and force:
        raise typer.BadParameter("--resume keeps what --force replaces; give one of them.")
    if out == "-" and json_output:
        raise typer.BadParameter(
            "standard output can't hold both the answers and the summary; write the answers to a "
            "file.",
            param_hint="--json",
        )
    made_with = salt(
        model,
        adapter,
        card,
        revision=revision,
        dtype=dtype.value,
        quantize=quantize,
        deterministic=deterministic,
        legal_mass=legal_mass,
    )

    def load() -> Engine | OnnxEngine:
        opens = options.load_pack if is_pack(model) else options.load_engine
        return opens(
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

    with (
        Lines(source, made_with) as lines,
        Output(out, source, resume=resume, force=force) as output,
    ):
        summary = run(load, lines, output, chunk=chunk, legal_mass=legal_mass, strict=strict)
    if json_output:
        print_json(summary.to_json())
    else:
        note(str(summary))
    if summary.errors:
        raise typer.Exit(1)
