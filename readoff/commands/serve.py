"""`readoff serve`: the HTTP server."""

from __future__ import annotations

import os
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from readoff.commands import options


class Level(StrEnum):
    """The least important lines that the log holds."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"
    NONE = "none"


def serve(
    model: Annotated[
        list[str] | None,
        typer.Option(
            "--model",
            "-m",
            metavar="[NAME=]MODEL",
            help="demo, demo-base, a folder, hub id, .gguf file or adapter; may be repeated.",
        ),
    ] = None,
    adapter: Annotated[
        list[str] | None,
        typer.Option(metavar="[NAME=]ADAPTER", help="A LoRA adapter, of the model NAME."),
    ] = None,
    card: Annotated[
        list[str] | None,
        typer.Option(metavar="[NAME=]FILE", help="A decision card, of the model NAME."),
    ] = None,
    alias: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME[=MODEL]",
            help="Another name for a model (the first). jev-latest is one already.",
        ),
    ] = None,
    host: Annotated[str, typer.Option(help="0.0.0.0 lets other machines in.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0: any that is free.")] = 8000,
    api_key_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Keys that clients must send, one a line; see READOFF_API_KEYS."
        ),
    ] = None,
    max_queue: Annotated[
        int, typer.Option(metavar="N", min=1, help="Requests of a model at once; then 429.")
    ] = 256,
    max_wait_ms: Annotated[
        float, typer.Option(metavar="MS", min=0, help="How long a request waits for company.")
    ] = 0.0,
    cache_bytes: Annotated[
        int | None,
        typer.Option(metavar="N", min=0, help="What a model's cached prefixes may occupy."),
    ] = None,
    deadline_ms: Annotated[
        float | None,
        typer.Option(metavar="MS", help="How long a request may take, x-readoff-deadline-ms too."),
    ] = None,
    body_limit: Annotated[
        int, typer.Option(metavar="BYTES", min=1, help="The largest body; then 413.")
    ] = 4 << 20,
    max_questions: Annotated[
        int, typer.Option(metavar="N", min=1, help="Questions of a request; then 422.")
    ] = 1024,
    max_connections: Annotated[
        int, typer.Option(metavar="N", min=1, help="Connections at once; then 503.")
    ] = 1024,
    header_timeout: Annotated[
        float, typer.Option(metavar="S", help="Seconds for the head of a request.")
    ] = 10.0,
    body_timeout: Annotated[
        float, typer.Option(metavar="S", help="Seconds for its body; then 408.")
    ] = 20.0,
    drain_seconds: Annotated[
        float,
        typer.Option(
            metavar="S", min=0, help="After SIGTERM: go on accepting so long, but not ready."
        ),
    ] = 0.5,
    drain_limit: Annotated[
        float, typer.Option(metavar="S", help="After that: seconds for what runs to finish.")
    ] = 60.0,
    legal_mass_every: Annotated[
        int,
        typer.Option(metavar="N", min=0, help="Legal mass for the metrics: one request in N."),
    ] = 100,
    log_level: Annotated[Level, typer.Option(help="JSON lines on stderr.")] = Level.INFO,
    log_text: Annotated[
        bool, typer.Option("--log-text", help="Write states and questions to the log too.")
    ] = False,
    device: options.Device = "auto",
    dtype: options.DtypeOption = options.Dtype.AUTO,
    threads: options.Threads = None,
    quantize: options.Quantize = None,
    deterministic: options.Deterministic = False,
) -> None:
    """Answer requests over HTTP: /v1/systemone, /v1/decisions, and a page to try them at /.

    Example:

        readoff serve

        readoff serve --model small=demo --model ./my-model --alias default=small

        readoff serve --model ./my-model --host 0.0.0.0 --api-key-file keys.txt

    SIGTERM finishes what was accepted, then exits with 0; a second one ends at once.
    """
    from readoff.engine.errors import ReadoffError
    from readoff.serve.errors import StartError
    from readoff.serve.keys import Keys
    from readoff.serve.log import Log
    from readoff.serve.opening import loader_of, parse_aliases, parse_sources, served_of
    from readoff.serve.server import listen
    from readoff.serve.server import serve as run
    from readoff.serve.settings import Settings
    from readoff.serve.tracing import tracing_of

    engine: dict[str, Any] = {
        "device": device,
        "dtype": dtype.value,
        "threads": threads,
        "quantize": None if quantize is None else quantize.value,
        "cache_bytes": cache_bytes,
        "max_queue": max_queue + 8,
        "max_wait_ms": max_wait_ms,
        "deterministic": deterministic,
    }
    try:
        settings = Settings(
            max_queue=max_queue,
            deadline_ms=deadline_ms,
            body_limit=body_limit,
            max_questions=max_questions,
            max_connections=max_connections,
            header_timeout=header_timeout,
            body_timeout=body_timeout,
            drain_seconds=drain_seconds,
            drain_limit=drain_limit,
            legal_mass_every=legal_mass_every,
            log_text=log_text,
        )
        sources = parse_sources(model or [], adapter or [], card or [])
        models = served_of(sources, parse_aliases(alias or [], sources[0].name))
        keys = Keys.load(api_key_file)
        sock = listen(host, port)
    except StartError as error:
        _refuse(error)
    log = Log(log_level.value)
    tracing, problem = tracing_of()
    if problem is not None:
        log("warning", "no traces", message=problem)
    loaders = {source.name: loader_of(source, engine) for source in sources}
    try:
        finished = run(models, loaders, sock, settings, keys=keys, log=log, tracing=tracing)
    except ReadoffError as error:
        _refuse(error)
    except MemoryError:
        _refuse(StartError("There is not enough memory for the model."))
    if not finished:  # the interpreter must not go down around a thread that reads weights
        os._exit(0)


def _refuse(error: Exception) -> NoReturn:
    """One line, and exit code 2."""
    print(f"readoff: error: {' '.join(str(error).split())}", file=sys.stderr)
    raise typer.Exit(2)
