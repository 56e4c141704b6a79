"""`readoff export`: a model in a form that runs elsewhere."""

from __future__ import annotations

import typer

from readoff.commands import export_merge, export_onnx

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("merge")(export_merge.merge)
app.command("onnx")(export_onnx.onnx)


@app.callback()
def export() -> None:
    """Write a model so that it runs elsewhere: adapters merged in, or without torch."""
