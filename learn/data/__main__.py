"""Make training data from the public data sets.

    python -m readoff.learn.data --sources DIR --out DIR
    python -m readoff.learn.data --sources DIR --out DIR --states 300 --seed 1 --json
    python -m readoff.learn.data --sources DIR --out DIR --weights estimated --model none
    python -m readoff.learn.data --sources DIR --out DIR --only routing --only navigation

DIR of the sources holds clinc150/data_full.json, banking77/train.csv and test.csv, and what must
not be trained on: bigbench/*.json and cranfield/. The status is 0, 1 for an error, 2 for wrong
usage. With --json the document that --out gets as data.json is the last thing on stdout.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import cast

from readoff.bench.workloads.lexicon import FAMILIES
from readoff.learn.data.build import STATES, Options, build
from readoff.learn.failing import status


def main(argv: Sequence[str] | None = None) -> int:
    """The exit status."""
    given = _parser().parse_args(argv)
    return status(lambda: _run(given))


def _run(given: argparse.Namespace) -> int:
    options = Options(
        sources=given.sources,
        out=given.out,
        seed=given.seed,
        states=given.states,
        weights=given.weights,
        only=tuple(dict.fromkeys(given.only)),
        model=None if given.model == "none" else given.model,
        force=given.force,
    )
    document = build(options, lambda text: print(text, file=sys.stderr))
    print(json.dumps(document, ensure_ascii=False) if given.json else _text(options, document))
    return 0


def _parser() -> argparse.ArgumentParser:
    summary, _, rest = (__doc__ or "").partition("\n\n")
    parser = argparse.ArgumentParser(
        prog="python -m readoff.learn.data",
        description=summary,
        epilog=rest,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--sources", type=Path, required=True, metavar="DIR", help="public data")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="where to write")
    parser.add_argument("--seed", type=int, default=0, help="the same seed, the same rows")
    parser.add_argument(
        "--states", type=int, default=STATES, metavar="N", help=f"training rows ({STATES})"
    )
    parser.add_argument(
        "--weights",
        choices=("fixed", "estimated"),
        default="fixed",
        help="a half for derived labels, or 1 minus the estimated noise",
    )
    parser.add_argument(
        "--only",
        choices=FAMILIES,
        action="append",
        default=[],
        help="keep the questions of this family only; may be repeated",
    )
    parser.add_argument(
        "--model", default="demo", help='whose tokens to count ("none": count none)'
    )
    parser.add_argument("--force", action="store_true", help="replace a data set that is there")
    parser.add_argument("--json", action="store_true", help="print data.json")
    return parser


def _text(options: Options, document: Mapping[str, object]) -> str:
    lines = []
    for split in ("train", "valid", "test"):
        found = cast(Mapping[str, object], document[split])
        families = cast(Mapping[str, int], found["questions_by_family"])
        counts = ", ".join(f"{name} {number}" for name, number in families.items())
        lines.append(f"{split}: {found['rows']} states, {found['questions']} questions ({counts})")
    if "tokens" in document:
        counted = cast(Mapping[str, object], document["tokens"])
        lines.append(
            f"tokens: {counted['train']} train, {counted['valid']} valid, "
            f"{counted['test']} test ({counted['model']})"
        )
    noise = cast(Mapping[str, Mapping[str, float]], document["noise"])
    for name, rate in (noise["sources"] | noise["kinds"]).items():  # type: ignore[operator]
        lines.append(f"noise of {name}: {rate:.1%}")
    return "\n".join([*lines, f"{options.out} is written."])


if __name__ == "__main__":
    sys.exit(main())
