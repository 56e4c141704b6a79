"""The command `readoff`: argument parsing, and how every command fails.

Exit codes: 0 done, 1 a `ReadoffError` (one line on stderr), 2 wrong usage, 130 interrupted, 143
terminated while training (the state is saved).
Only results go to stdout; progress and errors go to stderr.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated, NoReturn

import typer

from readoff import __version__
from readoff.commands import (
    batch,
    bench,
    calibrate,
    decide,
    demo,
    export,
    fetch,
    info,
    kernels,
    serve,
    train,
)
from readoff.engine.errors import ReadoffError, RequestError
from readoff.engine.extras import advice

app = typer.Typer(
    name="readoff",
    help="Typed decisions from a Qwen model in one forward pass: nothing generated or parsed.",
    epilog="Example:  readoff demo    ·    readoff decide --request request.json    ·    "
    "readoff bench --quick",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("demo")(demo.demo)
app.command("decide")(decide.decide)
app.add_typer(bench.app, name="bench")
app.command("batch")(batch.batch)
app.command("serve")(serve.serve)
app.command("train")(train.train)
app.command("calibrate")(calibrate.calibrate)
app.add_typer(export.app, name="export")
app.command("info")(info.info)
app.command("fetch")(fetch.fetch)
app.add_typer(kernels.app, name="kernels")


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"readoff {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """Typed decisions from a Qwen model in one forward pass: nothing generated or parsed."""


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and exit. `arguments` defaults to those of the process."""
    try:
        app(arguments, prog_name="readoff")
    except ReadoffError as error:
        _fail(_one_line(error))
    except ModuleNotFoundError as error:
        told = advice(error)
        if told is None:
            raise
        _fail(told)
    except KeyboardInterrupt:
        sys.exit(130)
    sys.exit(0)


def _one_line(error: ReadoffError) -> str:
    message = " ".join(str(error).split())
    if isinstance(error, RequestError) and error.loc:
        return f"{'.'.join(map(str, error.loc))}: {message}"
    return message


def _fail(message: str) -> NoReturn:
    print(f"readoff: error: {message}", file=sys.stderr)
    sys.exit(1)
