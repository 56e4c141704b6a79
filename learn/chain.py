"""The command line of `python -m readoff.learn.chain`."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from readoff.bench.records import Ask
from readoff.bench.report.result import write_text
from readoff.learn.evaluate.bars import bars
from readoff.learn.evaluate.decisions import Decisions, only, read_decisions, sample
from readoff.learn.failing import exit_with
from readoff.learn.links import Chain, passed, table

ITEMS = 200
RESULT = "chain.json"

_EXAMPLES = """examples:
  python -m readoff.learn.chain --model demo --adapter adapters/demo --test test.jsonl --work chain
  python -m readoff.learn.chain --model demo --adapter mine --test test.jsonl --work chain \\
      --items 50 --no-onnx --json

DIR keeps the merged folder and the ONNX pack, both in fp32 (two gigabytes each for half a billion
weights), and gets chain.json. Exit codes: 0 all answer alike, 1 they don't or an error, 2 wrong
usage."""


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and exit. `arguments` defaults to those of the process."""
    given = _parser().parse_args(arguments)
    exit_with(lambda: _run(given))


def items(decisions: Decisions, count: int, seed: int) -> tuple[Ask, ...]:
    """At most `count` questions, drawn from all families alike; those of a state stay together."""
    families = max(1, len(set(decisions.families)))
    numbers = sample(decisions, -(-count // families), seed)
    spare = len(numbers) - count
    for family in sorted(set(decisions.families)) if spare > 0 else ():
        last = [i for i in numbers if decisions.families[i] == family][-1]
        numbers.remove(last)
        spare -= 1
        if not spare:
            break
    return only(decisions, set(numbers))


def _run(given: argparse.Namespace) -> int:
    asks = items(read_decisions(given.test, ("test",)), given.items, given.seed)
    with bars() as tell:
        chain = Chain(
            given.model, given.adapter, asks, given.work, thread_count=given.threads, tell=tell
        )
        links = chain.run(bf16=not given.no_bf16, onnx=not given.no_onnx)
    document = chain.document(links)
    text = json.dumps(document, indent=2, allow_nan=False)
    write_text(given.work / RESULT, text + "\n")
    print(text if given.json else table(document))
    return 0 if passed(links) else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m readoff.learn.chain",
        description="Take an adapter through loading, merging and exporting, and compare answers.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--model", default="demo", help="the base (default: demo, here without its adapter)")
    add("--adapter", type=Path, required=True, metavar="DIR", help="the adapter's folder")
    add("--test", type=Path, nargs="+", required=True, metavar="FILE", help="labelled rows")
    add("--work", type=Path, required=True, metavar="DIR", help="for what is made on the way")
    add("--items", type=_positive, default=ITEMS, metavar="N", help=f"questions ({ITEMS})")
    add("--no-bf16", action="store_true", help="leave the comparison in bf16 out")
    add("--no-onnx", action="store_true", help="leave the ONNX pack out")
    add("--seed", type=int, default=0, metavar="N", help="draws the items")
    add("--threads", type=_positive, metavar="N", help="CPU threads")
    add("--json", action="store_true", help="print chain.json")
    return parser


def _positive(text: str) -> int:
    value = int(text) if text.isdecimal() else 0
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no number from 1 on")
    return value


if __name__ == "__main__":
    main()
