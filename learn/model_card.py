"""`python -m readoff.learn.model_card`: the README of an adapter, from its own records alone.

Every figure comes from training.json, evaluation.json and (where they are there) data.json and
chain.json; nothing is copied by hand, so a card that is made anew says what was measured last.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NoReturn

from readoff.bench.report.blocks import Table
from readoff.bench.report.markdown import render_table
from readoff.bench.report.result import write_text
from readoff.engine.errors import ReadoffError
from readoff.engine.fetch import DEMO as DEMO_FILE
from readoff.learn.evaluate import report
from readoff.learn.evaluate.contender import CALIBRATED, TRAINED
from readoff.learn.evaluate.scope import SAMPLE, UNSEEN
from readoff.learn.links import table as chain_table
from readoff.learn.records import Json, Records, read_records

README = "README.md"
SKIPPED = frozenset({"curve", "bins"})
"""Series that a picture shows."""

_METHOD = (
    "Soft-label learning for calibrated decisions, as published: the logits of the legal labels at "
    "the first output position, softmax over them, and a soft target t for each question. The loss "
    "is the mean over questions, by weight, of cross-entropy plus λ times the Brier score "
    "(`brier_weight` below); both are strictly proper, so that the best p is t. What is trained is "
    "a LoRA adapter; it sees exactly the tokens that serving computes, all questions of a state in "
    "one pass."
)


def card(records: Records) -> str:
    """The whole README."""
    parts = [
        _front(records),
        _use(records),
        _section("Losses and what it had to show", _shown(records)),
        _section("Known weak spots", _weak(records.evaluation)),
        _section("Figures", _figures(records)),
        _section("Method", [_METHOD, "", *_settings(records.training)]),
        _section("Training", _training(records.training)),
    ]
    if records.data:
        parts.append(_section("Data", _data(records.data)))
    if records.chain is not None:
        parts.append(_section("The same answers everywhere", [chain_table(records.chain)]))
    if records.pictures:
        shown = [f"![{Path(name).stem}]({name})" for name in records.pictures]
        parts.append(_section("Pictures", ["\n\n".join(shown)]))
    return "\n".join(parts).rstrip() + "\n"


def flat(value: object, key: str = "") -> Iterator[tuple[str, str]]:
    """(dotted key, value as text) of every leaf of a JSON document but those in `SKIPPED`."""
    if isinstance(value, Mapping):
        for name, inner in value.items():
            if name not in SKIPPED:
                yield from flat(inner, f"{key}.{name}" if key else str(name))
    elif isinstance(value, list | tuple):
        if all(not isinstance(item, Mapping | list | tuple) for item in value):
            yield key, ", ".join(map(shown, value)) or "–"
        else:
            for number, inner in enumerate(value):
                yield from flat(inner, f"{key}.{number}")
    else:
        yield key, shown(value)


def shown(value: object) -> str:
    """A figure as the card has it: whole numbers whole, others to four digits."""
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _section(title: str, lines: Sequence[str] | Iterator[str]) -> str:
    return "\n".join([f"## {title}", "", *lines, ""])


def _front(records: Records) -> str:
    base = str(records.training.get("base", ""))
    languages = sorted({str(x) for x in _languages(records.data, records.training)})
    lines = ["---", f"base_model: {json.dumps(base)}", "library_name: peft"]
    # Quoted as JSON, which YAML is a superset of: a language called "no" stays a text.
    lines += [f"license: {json.dumps(records.licence)}"]
    lines += ["language:", *(f"- {json.dumps(x)}" for x in languages)] if languages else []
    lines += ["tags:", "- lora", "- calibration", "- text-classification", "---", ""]
    lines += [f"# {' '.join(records.name.split())}", ""]
    lines += [
        f"A LoRA adapter for `{base}` that answers typed questions about a state: which option, "
        "which level, true or false. The probabilities are read off the logits of the labels in "
        "one forward pass, and are meant to be right as often as they say. Made by "
        "`readoff train`.",
        "",
        *_beside(records.training),
    ]
    return "\n".join(lines)


def _beside(training: Json) -> list[str]:
    """Where the base was a quantised file, what it was trained beside is not what its name says."""
    if training.get("facts", {}).get("base") != DEMO_FILE.sha256:
        return []
    return [
        f"It was trained and measured beside the numbers of `{DEMO_FILE.name}` (the model that "
        "readoff calls `demo-base`); beside the full-precision weights it gives other ones.",
        "",
    ]


def _use(records: Records) -> str:
    model = records.evaluation.get("model", "demo")
    return _section(
        "Use",
        [
            "```sh",
            f"readoff decide --model {model} --adapter {records.name} --request request.json",
            f"readoff export merge --model {model} --adapter {records.name} --out merged",
            "```",
            "",
            "```python",
            "from readoff import Choice, Engine",
            "",
            f'engine = Engine.from_pretrained("{model}", adapter="{records.name}")',
            'question = Choice(criteria={"billing": "Invoices and refunds", "tech": None})',
            'decision = engine.decide("I was charged twice.", {"team": question})',
            'print(decision["team"].probabilities)',
            "```",
            "",
            "The folder is in the format of PEFT. Temperatures and labels lie beside the weights "
            "and are applied by themselves. The figures below say for what it was measured: other "
            "kinds of questions need labelled decisions of their own (`readoff calibrate`).",
        ],
    )


def _shown(records: Records) -> list[str]:
    lines = [*report.losses(records.evaluation), "", *report.gates_table(records.evaluation)]
    return [*lines, "", records.notes.strip()] if records.notes.strip() else lines


def _weak(evaluation: Json) -> Iterator[str]:
    """What the figures themselves call weak."""
    yield (
        "The published method's own weak spots are navigation, and calibration on data unlike the "
        "training's. What was measured here:"
    )
    yield ""
    found = [*_missed(evaluation), *_lost(evaluation), *_unsure(evaluation)]
    yield from found or ["- none beyond noise."]


def _missed(evaluation: Json) -> Iterator[str]:
    for gate in evaluation["gates"]:
        if gate["verdict"] != "met":
            yield f"- {gate['name']}: {gate['asked']}; {gate['verdict']} ({gate['found']})."


def _lost(evaluation: Json) -> Iterator[str]:
    for row in evaluation["losses"]:
        noise = "beyond noise" if row["beyond_noise"] else "within noise"
        where = "unseen" if row["scope"] == UNSEEN else row["scope"]
        yield (
            f"- {row['slice']} ({where}, {row['decisions']} decisions): {row['contender']} has "
            f"{row['difference']:+.3f} {row['figure']} against zero-shot, {noise}."
        )


def _unsure(evaluation: Json) -> Iterator[str]:
    """Slices whose calibration error no calibrated model would show."""
    known = {row["contender"] for scope in evaluation["scopes"] for row in scope["rows"]}
    served = CALIBRATED if CALIBRATED in known else TRAINED
    for scope in evaluation["scopes"]:
        for row in scope["rows"]:
            most = row["ece_if_calibrated_at_most"]
            own = row["contender"] == served and not scope["name"].endswith(SAMPLE)
            if own and most is not None and row["ece"] > most:
                yield (
                    f"- {row['slice']} ({scope['name']}): ECE {row['ece']:.3f} of {served}, where "
                    f"97.5 % of samples of a calibrated model stay below {most:.3f}."
                )


def _figures(records: Records) -> Iterator[str]:
    evaluation = records.evaluation
    yield from report.how(evaluation)
    for scope in evaluation["scopes"]:
        yield from ["", f"### {report.TITLES[scope['name']]}", ""]
        yield report.population(scope)
        yield ""
        yield from render_table(report.figures_table(scope))
        yield from ["", "Differences, paired:", ""]
        yield from render_table(report.paired_table(scope))


def _settings(training: Json) -> Iterator[str]:
    yield from _table("setting", training.get("facts", {}))


def _training(training: Json) -> Iterator[str]:
    yield from _step(training)
    rest = {key: value for key, value in training.items() if key != "facts"}
    yield from _table("training.json", rest)


def _step(training: Json) -> Iterator[str]:
    """Which step the adapter is of, and how it was chosen."""
    best, facts = training.get("best_step"), training.get("facts", {})
    taken = [r for r in training.get("curve", ()) if "loss" in r and r["step"] <= (best or 0)]
    if not taken:
        return
    questions, tokens = (sum(r[key] for r in taken) for key in ("questions", "tokens"))
    there = training.get("data", {}).get("valid", {}).get("rows", 0)
    rows = min(facts.get("eval_rows") or there, there)
    yield (
        f"The adapter is that of step {best} of the {training['steps']} that were taken: "
        f"{questions:,} questions, {tokens:,} tokens. The loss on {rows} validation states chose "
        "the step, so the validation figures below are a little too good."
    )
    if facts.get("quantize"):
        yield (
            f"They were measured through the {facts['quantize']} products that trained it; the "
            "figures above are not."
        )
    if facts.get("init"):
        yield f"It began from an earlier adapter (digest {facts['init']})."
    yield ""


def _data(data: Json) -> Iterator[str]:
    sources = data.get("sources", {})
    if isinstance(sources, Mapping) and sources:
        rows = [
            [str(name), shown(about.get("licence")), shown(about.get("sha256"))]
            for name, about in sources.items()
        ]
        head = ["source", "licence", "sha256"]
        yield from render_table(Table(head, rows, left=frozenset({0, 1, 2})))
        yield ""
    yield from _table("data.json", {key: v for key, v in data.items() if key != "sources"})


def _table(what: str, document: object) -> Iterator[str]:
    rows = [[key, value] for key, value in flat(document)]
    yield from render_table(Table([what, "value"], rows, left=frozenset({0, 1})))


def _languages(data: Json, training: Json) -> Sequence[str]:
    found = data.get("train", {}).get("questions_by_language") if "train" in data else None
    if not found:
        found = training.get("data", {}).get("train", {}).get("languages", {})
    return [name for name in found if name]


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and exit: 0 done, 1 an error, 2 wrong usage."""
    parser = argparse.ArgumentParser(
        prog="python -m readoff.learn.model_card",
        description="Write the README.md of an adapter from its records.",
        epilog="example: python -m readoff.learn.model_card adapters/demo --notes losses.md",
    )
    add = parser.add_argument
    add("adapter", type=Path, metavar="ADAPTER", help="the adapter's folder")
    for name in ("training", "data", "evaluation", "chain"):
        add(f"--{name}", type=Path, metavar="FILE", help=f"default: ADAPTER/{name}.json")
    add("--notes", type=Path, metavar="FILE", help="Markdown: why something was lost, and so on")
    add("--licence", default="apache-2.0", help="of the adapter (default: apache-2.0)")
    given = parser.parse_args(arguments)
    try:
        files = {n: getattr(given, n) for n in ("training", "data", "evaluation", "chain")}
        made = card(read_records(given.adapter, files, given.notes, given.licence))
        write_text(given.adapter / README, made)
    except ReadoffError as error:
        print(f"readoff: error: {' '.join(str(error).split())}", file=sys.stderr)
        sys.exit(1)
    print(given.adapter / README)
    sys.exit(0)


if __name__ == "__main__":
    main()
