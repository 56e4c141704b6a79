"""`readoff export`: a model in a form that runs elsewhere."""

from __future__ import annotations

import signal
import sys

import typer

from readoff.commands import export_check, export_merge, export_onnx

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("merge")(export_merge.merge)
app.command("onnx")(export_onnx.onnx)
app.command("check")(export_check.check)


@app.callback()
def export() -> None:
    """Write a model so that it runs elsewhere: adapters merged in, or without torch."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # half an export isn't left behind
