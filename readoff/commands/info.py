"""`readoff info`: what would run here, with which implementation of each operator, and why."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from readoff.commands import machine, options
from readoff.commands.output import print_json


def info(
    device: options.Device = "auto",
    dtype: options.DtypeOption = options.Dtype.AUTO,
    json_output: options.Json = False,
) -> None:
    """Say what this machine offers and which implementation of each operator it gets.

    No model is loaded. Without torch the versions are still told.

    Example:

        readoff info --device cpu --dtype fp32
    """
    facts = machine.describe(device, dtype.value)
    if json_output:
        print_json(facts)
    else:
        Console().print(_table(facts))


def _table(facts: Mapping[str, Any]) -> Table:
    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in facts.items():
        if name == "kernels":
            continue
        if isinstance(value, Mapping):
            value = ", ".join(f"{k} {v}" for k, v in value.items() if v is not None)
        elif isinstance(value, list):
            value = ", ".join(map(str, value)) or "none"
        table.add_row(name.replace("_", " "), escape(str(value)))
    for op, told in (facts["kernels"] or {}).items():
        lines = [f"{implementation}: {why}" for implementation, why in told.items()]
        table.add_row(op, escape("\n".join(lines)))
    return table
