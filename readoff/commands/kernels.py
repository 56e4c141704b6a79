"""`readoff kernels report`: what the compiler makes of every Triton kernel, without a GPU."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from itertools import groupby
from typing import TYPE_CHECKING, Annotated

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from readoff.commands import options
from readoff.commands.output import note

if TYPE_CHECKING:
    from readoff.kernels.aot import Compiled

CAPTION = (
    "spilled: bytes a thread; shared: KiB; code: instructions of the inner loop, or of the whole "
    "kernel where it has none; wide: loads of 16 bytes a thread or more"
)

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback()
def kernels() -> None:
    """The kernels that run on a GPU.

    Example:

        readoff kernels report
    """


@app.command()
def report(
    target: Annotated[
        list[str] | None,
        typer.Option(metavar="CAPABILITY", help="80, 86, 89, 90, 100 or 120 (default: all)."),
    ] = None,
    op: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="One operator (default: all).")
    ] = None,
    json_output: options.Json = False,
) -> None:
    """Compile every Triton kernel for every GPU generation, and tell what came out.

    No GPU is needed. For each kernel and target: registers, bytes spilled, shared memory, and
    the instructions of the inner loop: whether it multiplies with matrix instructions, and
    whether its loads bring 16 bytes a thread. Kernels compiled once stay in Triton's cache.

    The exit status is 1 when a kernel spills, doesn't compile or needs more shared memory than
    the target has, and 2 when triton isn't installed.

    Examples:

        readoff kernels report

        readoff kernels report --target 90 --target 100 --op tree_attention

        readoff kernels report --json
    """
    if find_spec("triton") is None:
        note(
            "readoff: error: this command needs triton, which isn't installed. "
            'Install it with: pip install "readoff[torch]"'
        )
        raise typer.Exit(2)
    from readoff.kernels import aot

    targets = _targets(target or [], aot.TARGETS)
    chosen = _operators(op or [], aot.operators())
    with _progress() as progress:
        compiled = aot.compile_all(aot.modules(chosen), targets, progress)
    if json_output:
        print(json.dumps(aot.rows(compiled), allow_nan=False))
    else:
        _show(compiled)
    if any(one.problems for one in compiled):
        raise typer.Exit(1)


def _targets(words: Sequence[str], known: Sequence[int]) -> list[int]:
    """The compute capabilities that `--target` names, as 90 or sm_90; all when it names none."""
    numbers = {name: n for n in known for name in (str(n), f"sm_{n}")}
    unknown = [word for word in words if word not in numbers]
    if unknown:
        raise typer.BadParameter(
            f"{unknown[0]!r} is none of {', '.join(map(str, known))}", param_hint="--target"
        )
    return list(dict.fromkeys(numbers[word] for word in words)) or list(known)


def _operators(words: Sequence[str], known: Sequence[str]) -> list[str]:
    """The folders of operators that `--op` names, by their own name or an operator's; all when it
    names none."""
    words = [_HOME.get(word, word) for word in words]
    unknown = [word for word in words if word not in known]
    if unknown:
        raise typer.BadParameter(
            f"{unknown[0]!r} has no Triton kernel; there are {', '.join(known)}",
            param_hint="--op",
        )
    return list(dict.fromkeys(words)) or list(known)


_HOME = {"log_partition": "label_readout"} | dict.fromkeys(
    ("add_rms_norm", "gated_rms_norm", "norm_rope_write", "rms_norm", "sigmoid_gate", "swiglu"),
    "pointwise",
)
"""Operators that don't have the name of their folder."""


@contextmanager
def _progress() -> Iterator[Callable[[int, int], None]]:
    """A bar on stderr where that is a terminal, a line at each tenth where it isn't."""
    console = Console(stderr=True)
    if not console.is_terminal:
        shown = -1

        def tell(done: int, of: int) -> None:
            nonlocal shown
            if of and 10 * done // of > shown:
                shown = 10 * done // of
                note(f"kernels compiled: {done} of {of}")

        yield tell
        return
    from rich.progress import Progress

    with Progress(console=console, transient=True) as bar:
        task = bar.add_task("compiling kernels", total=None)
        yield lambda done, of: bar.update(task, completed=done, total=of)


def _show(compiled: Sequence[Compiled]) -> None:
    """A table for each operator, and what is wrong below all of them."""
    console = Console()
    if not console.is_terminal:
        console = Console(width=max(console.width, 120))
    for op, rows in groupby(compiled, lambda one: one.kernel.partition(".")[0]):
        console.print(_table(op, list(rows)))
    console.print(CAPTION, style="dim", highlight=False)
    for one in compiled:
        for problem in one.problems:
            console.print(f"sm_{one.target} {one.kernel}: {problem}", style="red", markup=False)


def _table(op: str, rows: Sequence[Compiled]) -> Table:
    table = Table(box=SIMPLE_HEAD)
    table.add_column(op, overflow="fold")
    for name in ("sm", "registers", "spilled", "shared"):
        table.add_column(name, justify="right")
    table.add_column("of")
    for name in ("code", "matrix", "wide", "narrow"):
        table.add_column(name, justify="right")
    for before, one in zip([None, *rows], rows, strict=False):
        first = before is None or before.kernel != one.kernel
        if first and before is not None and before.target != one.target:
            table.add_section()
        name = one.kernel.partition(".")[2]
        cells = [escape(name) if first else "", str(one.target)]
        if one.error is not None:
            table.add_row(*cells, "[red]no code[/red]")
            continue
        numbers = (one.instructions, one.matrix_instructions, one.wide_loads, one.narrow_loads)
        table.add_row(
            *cells,
            str(one.registers),
            _marked(str(one.spills), one.spills > 0),
            _marked(f"{one.shared_bytes / 1024:.1f}", one.shared_bytes > one.shared_limit),
            "loop" if one.loop else "all",
            *map(str, numbers),
        )
    return table


def _marked(text: str, wrong: bool) -> str:
    return f"[red]{text}[/red]" if wrong else text
