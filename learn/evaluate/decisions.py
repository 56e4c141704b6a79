"""`Decisions`: labelled questions to evaluate on, and what each of them is an example of."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from readoff.bench.calibrate.collect import labelled_rows, state_key
from readoff.bench.calibrate.rows import Rows
from readoff.bench.records import Ask
from readoff.bench.workloads.lexicon import Dice
from readoff.learn.evaluate.errors import EvaluationError
from readoff.learn.examples import Example, read_examples

UNKNOWN = "unknown"
"""The language of rows that name none, and the source of such rows."""


@dataclass(frozen=True)
class Decisions:
    """N questions of `asks`, in the order of the asks and of each one's questions.

    `families`, `languages` and `sources` [N] say what the questions are examples of. All weights
    are 1: a row's weight is about training, and here every decision counts alike.
    """

    asks: tuple[Ask, ...]
    families: tuple[str, ...]
    languages: tuple[str, ...]
    sources: tuple[str, ...]

    def __post_init__(self) -> None:
        count = sum(len(ask.targets) for ask in self.asks)
        assert len(self.families) == len(self.languages) == len(self.sources) == count

    def __len__(self) -> int:
        return len(self.families)

    def rows(self) -> Rows:
        """The questions as columns, logits all zero."""
        return labelled_rows(self.asks)

    def places(self) -> list[tuple[int, str]]:
        """(number of the ask, question id) of each question, [N]."""
        return [(number, name) for number, ask in enumerate(self.asks) for name in ask.targets]


def read_decisions(paths: Sequence[Path], splits: Collection[str]) -> Decisions:
    """The rows of `paths` whose questions have a weight above zero.

    A row that names a split must name one of `splits`. Raises ExampleError for rows that aren't
    legal, EvaluationError for other splits and where nothing is left.
    """
    rows = [row for path in paths for row in read_examples(path)]
    for row in rows:
        if row.split is not None and row.split not in splits:
            raise EvaluationError(
                f"{row.where} is of the {row.split} split, and rows of {' or '.join(splits)} are "
                "wanted here. Give the file of that split."
            )
    made = _decisions(rows)
    if not len(made):
        names = ", ".join(map(str, paths)) or "no file"
        raise EvaluationError(f"There is no question with a weight above zero in {names}.")
    return made


def check_apart(test: Decisions, fit: Decisions) -> None:
    """Raises EvaluationError if a state is in both: a temperature must not see the test."""
    known = {state_key(ask.state) for ask in test.asks}
    shared = len({state_key(ask.state) for ask in fit.asks} & known)
    if shared:
        raise EvaluationError(
            f"{shared} states of the rows to fit temperatures on are tested on too. Split by state."
        )


def of_asks(asks: Iterable[Ask], family: str, language: str, source: str) -> Decisions:
    """Decisions that are all alike, such as those of one public task."""
    kept = tuple(replace(ask, weight=1.0) for ask in asks)
    count = sum(len(ask.targets) for ask in kept)
    return Decisions(kept, (family,) * count, (language,) * count, (source,) * count)


def joined(parts: Iterable[Decisions]) -> Decisions:
    """One after the other."""
    found = list(parts)
    return Decisions(
        tuple(ask for part in found for ask in part.asks),
        tuple(name for part in found for name in part.families),
        tuple(name for part in found for name in part.languages),
        tuple(name for part in found for name in part.sources),
    )


def sample(decisions: Decisions, count: int, seed: int) -> list[int]:
    """The numbers of at most `count` questions of each family, ascending.

    Drawn in turn from each source, number of options and language, so that a small sample has all.
    """
    rows = decisions.rows()
    strata: dict[str, dict[tuple[str, int, str], list[int]]] = {}
    for i, family in enumerate(decisions.families):
        key = (decisions.sources[i], int(rows.sizes[i]), decisions.languages[i])
        strata.setdefault(family, {}).setdefault(key, []).append(i)
    chosen: list[int] = []
    for family, piles in sorted(strata.items()):
        dice = Dice("evaluate", seed, family)
        stacks = [dice.sample(pile, len(pile)) for _, pile in sorted(piles.items())]
        found: list[int] = []
        while len(found) < count and any(stacks):
            for stack in stacks:
                if stack and len(found) < count:
                    found.append(stack.pop())
        chosen += found
    return sorted(chosen)


def only(decisions: Decisions, numbers: Collection[int]) -> tuple[Ask, ...]:
    """The asks of these questions alone; the questions of one ask stay together, in their order."""
    kept: dict[int, list[str]] = {}
    for i, (ask, name) in enumerate(decisions.places()):
        if i in numbers:
            kept.setdefault(ask, []).append(name)
    return tuple(_only(decisions.asks[number], names) for number, names in kept.items())


def _only(ask: Ask, names: Sequence[str]) -> Ask:
    questions = {name: ask.questions[name] for name in names}
    return replace(ask, questions=questions, targets={name: ask.targets[name] for name in names})


def _decisions(rows: Iterable[Example]) -> Decisions:
    asks: list[Ask] = []
    families: list[str] = []
    languages: list[str] = []
    sources: list[str] = []
    for row in rows:
        names = [name for name in row.questions if row.weights[name] > 0.0]
        if not names:
            continue
        targets = {
            name: {
                option: share
                for option, share in zip(
                    row.questions[name].options, row.targets[name], strict=True
                )
                if share > 0.0
            }
            for name in names
        }
        asks.append(Ask(row.state, {name: row.questions[name] for name in names}, targets))
        families += [row.families[name] for name in names]
        languages += [row.language or UNKNOWN] * len(names)
        sources += [row.source or UNKNOWN] * len(names)
    return Decisions(tuple(asks), tuple(families), tuple(languages), tuple(sources))
