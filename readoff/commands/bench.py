"""`readoff bench`: the ladder from generated JSON to one pass, measured here, on your model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from readoff.commands import bench_compare, bench_convert, options

app = typer.Typer(
    invoke_without_command=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("compare")(bench_compare.compare)
app.command("convert")(bench_convert.convert)

OUT = Path("readoff-bench")


@app.callback()
def bench(
    context: typer.Context,
    quick: Annotated[
        bool, typer.Option("--quick", help="Three minutes on two cores, in place of hours.")
    ] = False,
    model: options.BareModel = "demo",
    adapter: options.Adapter = None,
    card: options.CardPath = None,
    revision: options.Revision = None,
    device: options.Device = "auto",
    dtype: options.DtypeOption = options.Dtype.AUTO,
    threads: options.Threads = None,
    data: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE.jsonl", help="Labelled decisions to judge answers by."),
    ] = None,
    opponent: Annotated[
        list[str] | None,
        typer.Option(metavar="URL", help="A chat endpoint or a /v1/systemone server to measure."),
    ] = None,
    opponent_kind: Annotated[
        Literal["auto", "openai", "systemone"], typer.Option(help="What the opponents speak.")
    ] = "auto",
    opponent_model: Annotated[
        str | None, typer.Option(metavar="NAME", help="The model asked for (default: its first).")
    ] = None,
    opponent_timeout: Annotated[
        float, typer.Option(metavar="SECONDS", min=0.1, help="When a request is given up.")
    ] = 60.0,
    out: Annotated[
        Path, typer.Option(metavar="DIR", file_okay=False, help="Where the report goes.")
    ] = OUT,
    seed: Annotated[int, typer.Option(min=0, help="The same seed, the same requests.")] = 0,
    rungs: Annotated[
        str | None, typer.Option(metavar="L0,L1,…", help="These rungs only, on every workload.")
    ] = None,
    repeats: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Exactly N timed rounds of everything.")
    ] = None,
    json_output: options.Json = False,
) -> None:
    """Measure readoff against generated JSON on this machine, on your model.

    All rungs have the same weights. An adapter that is trained for the readout no longer writes
    JSON, so demo means the model without its own here; with --adapter the report counts what JSON
    was unusable.

    Every rung of the ladder answers the same requests, is compared with the one below it, and is
    timed in turns with the others. report.html, report.md and result.json go to --out; the last
    line of stdout is the document of result.json. A red gate, an error or Ctrl-C keeps what was
    measured so far; the exit status is then not 0.

    Examples:

        readoff bench --quick

        readoff bench --model Qwen/Qwen3-0.6B --data decisions.jsonl --out qwen3

        readoff bench --quick --opponent http://localhost:8000

        readoff bench compare before/result.json after/result.json

        readoff bench convert banking77 shared/data banking77.jsonl --limit 300
    """
    if context.invoked_subcommand is not None:
        return
    from readoff.commands.bench_run import Chosen, run
    from readoff.engine.source import bare

    run(
        Chosen(
            quick=quick,
            model=bare(model),
            adapter=adapter,
            card=card,
            revision=revision,
            device=device,
            dtype=dtype,
            threads=threads,
            data=tuple(data or ()),
            opponents=tuple(opponent or ()),
            opponent_kind=None if opponent_kind == "auto" else opponent_kind,
            opponent_model=opponent_model,
            opponent_timeout=opponent_timeout,
            out=out,
            seed=seed,
            rungs=_names(rungs),
            repeats=repeats,
        ),
        quiet=json_output,
    )


def _names(rungs: str | None) -> tuple[str, ...] | None:
    """The rungs that `--rungs` names."""
    if rungs is None:
        return None
    names = tuple(dict.fromkeys(name.strip() for name in rungs.split(",") if name.strip()))
    if not names:
        raise typer.BadParameter("names no rung; write it as L0,L1,L4", param_hint="--rungs")
    return names
