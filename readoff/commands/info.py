"""`readoff info`: what would run here, with which implementation of each operator, and why."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from readoff.commands import machine, options
from readoff.commands.output import print_json
from readoff.export.pack import is_pack


def info(
    device: options.Device = "auto",
    dtype: options.DtypeOption = options.Dtype.AUTO,
    model: Annotated[
        str | None,
        typer.Option(
            "--model", "-m", metavar="MODEL", help="Also load this model or pack, and ask it."
        ),
    ] = None,
    json_output: options.Json = False,
) -> None:
    """Say what this machine offers and which implementation of each operator it gets.

    Without --model nothing is loaded. Without torch the versions are still told.

    Examples:

        readoff info --device cpu --dtype fp32

        readoff info --model my-pack
    """
    facts = machine.describe(device, dtype.value)
    if model is not None:
        load = options.load_pack if is_pack(model) else options.load_engine
        with load(model, device=device, dtype=dtype) as engine:
            facts["model"] = engine.info()
    if json_output:
        print_json(facts)
    else:
        Console().print(_table(facts))


def _table(facts: Mapping[str, Any]) -> Table:
    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in facts.items():
        if name in ("kernels", "model"):
            continue
        if isinstance(value, Mapping):
            value = ", ".join(f"{k} {v}" for k, v in value.items() if v is not None)
        elif isinstance(value, list):
            value = ", ".join(map(str, value)) or "none"
        table.add_row(name.replace("_", " "), escape(str(value)))
    loaded = facts.get("model", {})
    for name, value in loaded.items():
        if isinstance(value, Mapping):
            if name in ("kernels", "files"):
                continue
            value = ", ".join(f"{k} {v}" for k, v in value.items() if not isinstance(v, Mapping))
        table.add_row(f"model: {name}".replace("_", " "), escape(str(value)))
    for op, told in (loaded.get("kernels") or facts["kernels"] or {}).items():
        lines = [f"{implementation}: {why}" for implementation, why in told.items()]
        table.add_row(op, escape("\n".join(lines)))
    return table
