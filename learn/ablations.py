"""The command line of `python -m readoff.learn.ablations`."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

from readoff.bench.report.result import write_text
from readoff.learn.evaluate.bars import bars
from readoff.learn.evaluate.subject import Options
from readoff.learn.failing import exit_with
from readoff.learn.variants import SMALL, STATES, VALID_STATES, Setup, markdown, run

_EXAMPLES = """examples:
  python -m readoff.learn.data --sources public-data --out data
  python -m readoff.learn.data --sources public-data --out data-estimated --weights estimated
  python -m readoff.learn.ablations --data data --estimated data-estimated --out ablations

Five trainings of 90 states and their judging took 32 minutes on two cores without bf16, beside
other work. An interrupted call goes on. DIR gets ablations.json and ablations.md. Exit codes: 0
done, 1 an error, 2 wrong usage."""


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and exit. `arguments` defaults to those of the process."""
    given = _parser().parse_args(arguments)
    exit_with(lambda: _run(given))


def _run(given: argparse.Namespace) -> int:
    setup = Setup(
        model=given.model,
        data=given.data,
        estimated=given.estimated,
        out=given.out,
        states=given.states,
        valid_states=given.valid_states,
        base_name=given.base_name,
        seed=given.seed,
        options=Options("cpu", given.dtype, given.threads),
    )
    settings = replace(SMALL, batch=given.batch, learning_rate=given.learning_rate)
    with bars() as tell:
        document = run(setup, settings, tell)
    text = json.dumps(document, indent=2, allow_nan=False)
    write_text(given.out / "ablations.json", text + "\n")
    write_text(given.out / "ablations.md", markdown(document))
    print(text if given.json else markdown(document), end="")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m readoff.learn.ablations",
        description="Small trainings that differ in one thing each, judged on the same rows.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--model", default="demo", help="the base (default: demo, here without its adapter)")
    add("--data", type=Path, required=True, metavar="DIR", help="made by readoff.learn.data")
    add("--estimated", type=Path, metavar="DIR", help="the same with --weights estimated")
    add("--out", type=Path, required=True, metavar="DIR", help="adapters and findings")
    add("--states", type=_positive, default=STATES, metavar="N", help=f"trained on ({STATES})")
    add("--valid-states", type=_positive, default=VALID_STATES, metavar="N")
    add("--batch", type=_positive, default=SMALL.batch, metavar="N", help="questions a step")
    add("--learning-rate", type=float, default=SMALL.learning_rate, metavar="R")
    add("--base-name", metavar="NAME", help="what the adapters say their base is")
    add("--seed", type=int, default=0, metavar="N")
    add("--dtype", choices=("auto", "fp32", "bf16"), default="auto")
    add("--threads", type=_positive, metavar="N", help="CPU threads")
    add("--json", action="store_true", help="print ablations.json")
    return parser


def _positive(text: str) -> int:
    value = int(text) if text.isdecimal() else 0
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no number from 1 on")
    return value


if __name__ == "__main__":
    main()
