"""`python -m readoff.learn.evaluate`: what an adapter is worth, measured."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NoReturn

from readoff.engine.card_fields import DEBIAS
from readoff.learn.evaluate.bars import bars
from readoff.learn.evaluate.chosen import Chosen
from readoff.learn.evaluate.run import evaluate
from readoff.learn.evaluate.subject import Options
from readoff.learn.evaluate.writing import check_folder, write_all
from readoff.learn.failing import exit_with

_EXAMPLES = """examples:
  python -m readoff.learn.evaluate --model demo --adapter adapters/demo --test data/test.jsonl \\
      --fit data/valid.jsonl --bigbench public-data --out evaluation
  python -m readoff.learn.evaluate --model demo --adapter mine --test test.jsonl --json-rows 0 \\
      --out evaluation --json

Answers of the models are kept in DIR/logits: an interrupted call goes on, a second one computes
only. DIR gets evaluation.json, evaluation.md and pictures. Exit codes: 0 done, 1 an error (with
--check a gate missed too), 2 wrong usage."""


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and exit. `arguments` defaults to those of the process."""
    given = _parser().parse_args(arguments)
    exit_with(lambda: _run(given))


def _run(given: argparse.Namespace) -> int:
    check_folder(given.out)
    chosen = Chosen(
        model=given.model,
        adapter=given.adapter,
        test=tuple(given.test),
        logits=given.logits or given.out / "logits",
        bigbench=given.bigbench,
        fit=given.fit,
        json_rows=given.json_rows,
        debias=given.debias,
        task_rows=given.task_rows,
        seed=given.seed,
        resamples=given.resamples,
        options=Options(given.device, given.dtype, given.threads),
    )
    with bars() as tell:
        document = evaluate(chosen, tell)
    paths = write_all(given.out, document)
    print(f"written: {', '.join(map(str, paths))}", file=sys.stderr)
    if given.json:
        print(json.dumps(document, indent=2, ensure_ascii=True, allow_nan=False))
    else:
        print("\n".join(summary(document)))
    missed = any(gate["verdict"] != "met" for gate in document["gates"])
    return 1 if given.check and missed else 0


def summary(document: dict[str, Any]) -> Iterator[str]:
    """Losses first, then each gate with its verdict, for a terminal."""
    for row in document["losses"]:
        noise = "beyond noise" if row["beyond_noise"] else "within noise"
        yield (
            f"loss: {row['slice']} ({row['scope']}), {row['contender']}: {row['figure']} "
            f"{row['difference']:+.3f}, {noise}, {row['decisions']} decisions"
        )
    if not document["losses"]:
        yield "no loss against zero-shot on any family or task evaluated"
    for gate in document["gates"]:
        yield f"{gate['verdict']:13}{gate['name']}: {gate['found']} (asked: {gate['asked']})"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m readoff.learn.evaluate",
        description="Evaluate an adapter: with it and without it, debiased, calibrated, and "
        "against greedy JSON with its stated confidence.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--model", default="demo", help="the base (default: demo, here without its adapter)")
    add("--adapter", type=Path, required=True, metavar="DIR", help="the adapter's folder")
    add("--test", type=Path, nargs="+", required=True, metavar="FILE", help="labelled rows")
    add("--out", type=Path, required=True, metavar="DIR", help="where the findings go")
    add("--fit", type=Path, metavar="FILE", help="rows to fit one temperature a type on")
    add(
        "--bigbench",
        type=Path,
        metavar="DIR",
        help="folder with bigbench/ and cranfield/",
    )
    add("--json-rows", type=_count, default=50, metavar="N", help="of a family, for the JSON")
    add("--task-rows", type=_count, metavar="N", help="of a public task at most (default: all)")
    add("--debias", choices=DEBIAS, default="both", help="of the zero-shot model (default: both)")
    add("--logits", type=Path, metavar="DIR", help="where answers are kept (default: OUT/logits)")
    add("--seed", type=_count, default=0, metavar="N", help="of samples and of the bootstrap")
    add("--resamples", type=_count, default=1000, metavar="N", help="of the bootstrap")
    add("--device", default="auto", help="auto, cpu, cuda or cuda:N")
    add("--dtype", choices=("auto", "fp32", "bf16", "fp16"), default="auto")
    add("--threads", type=int, metavar="N", help="CPU threads")
    add("--check", action="store_true", help="exit with 1 unless every gate is met")
    add("--json", action="store_true", help="print evaluation.json")
    return parser


def _count(text: str) -> int:
    try:
        value = int(text)
    except ValueError:
        value = -1
    if value < 0:
        raise argparse.ArgumentTypeError(f"{text!r} is no number from 0 on")
    return value


if __name__ == "__main__":
    main()
