"""`Decisions`: labelled questions to evaluate on, and what each of them is an example of."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from readoff.bench.calibrate.collect import labelled_rows
from readoff.bench.calibrate.rows import Rows
from readoff.bench.records import Ask, state_key
from readoff.bench.workloads.lexicon import Dice
from readoff.learn.evaluate.errors import EvaluationError
from readoff.learn.examples import Example, read_examples

UNKNOWN = "unknown"
"""The language of rows that name none, and the source of such rows."""


@dataclass(frozen=True)
class Decisions:
    """N questions of `asks`, in the order of the asks and of each one's questions.

    `families`, `languages` and `sources` [N] say what the questions are examples of. All weights
    are 1: a row's weight is about training, and here every decision counts alike. `groups` are
    those that the rows name.
    """

    asks: tuple[Ask, ...]
    families: tuple[str, ...]
    languages: tuple[str, ...]
    sources: tuple[str, ...]
    groups: frozenset[str] = frozenset()

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
    """Raises EvaluationError if a state or a group is in both: a temperature must not see the
    test."""
    known = {state_key(ask.state) for ask in test.asks}
    states = len({state_key(ask.state) for ask in fit.asks} & known)
    for shared, what in ((states, "state"), (len(test.groups & fit.groups), "group")):
        if shared:
            raise EvaluationError(
                f"{shared} {what}{'s' if shared > 1 else ''} of the rows to fit temperatures on "
                f"{'are' if shared > 1 else 'is'} tested on too. Split by {what}."
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
        frozenset(group for part in found for group in part.groups),
    )


def sample(decisions: Decisions, count: int, seed: int) -> list[int]:
    """The numbers of at most `count` questions of each family, ascending.

    Drawn evenly along the family's questions in the order of source, number of options and
    language: each of these has as large a share of the sample as of the family, to one question.
    """
    rows = decisions.rows()
    families: dict[str, list[int]] = {}
    for i, family in enumerate(decisions.families):
        families.setdefault(family, []).append(i)
    chosen: list[int] = []
    for family, members in sorted(families.items()):
        dice = Dice("evaluate", seed, family)
        drawn = dice.sample(members, len(members))  # stays the order within what is alike
        drawn.sort(key=lambda i: (decisions.sources[i], rows.sizes[i], decisions.languages[i]))
        first = dice.number(0, len(drawn) - 1)
        turned = [*drawn[first:], *drawn[:first]]
        chosen += {turned[i * len(turned) // count] for i in range(count)}
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
    kept = [row for row in rows if row.weight > 0.0]
    for row in kept:
        names = [name for name in row.questions if row.weights[name] > 0.0]
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
    groups = frozenset(row.group for row in kept if row.group is not None)
    return Decisions(tuple(asks), tuple(families), tuple(languages), tuple(sources), groups)
