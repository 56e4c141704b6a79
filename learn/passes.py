"""`Pass`: what goes through the model at once, some questions of some rows as one forest."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import torch

from readoff.bench.records import state_key
from readoff.engine.batch import Batch
from readoff.engine.forest import Forest
from readoff.engine.prompt import Prompt, Renderer
from readoff.engine.questions import Choice, Question
from readoff.learn.errors import ExampleError
from readoff.learn.examples import Example

Pieces: TypeAlias = tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Line:
    """One question of one row as the model reads it, with its target and weight."""

    example: Example
    name: str
    pieces: Pieces
    labels: tuple[int, ...]
    target: tuple[float, ...]
    weight: float

    @property
    def family(self) -> str:
        """The question's family."""
        return self.example.families[self.name]

    def __len__(self) -> int:
        return sum(map(len, self.pieces))


@dataclass(frozen=True)
class Pass:
    """A forest of lines. targets: [L] fp32 in the order of the batch's labels; weights: [N]."""

    batch: Batch
    lines: tuple[Line, ...]
    targets: torch.Tensor
    weights: torch.Tensor

    @property
    def tokens(self) -> int:
        """Tokens that are computed."""
        return len(self.batch.tokens)


class Lines:
    """Makes the lines of rows: exactly the tokens that serving computes for them."""

    def __init__(self, renderer: Renderer, *, hard: bool = False, permute: int | None = None):
        """`hard`: all of a target goes to its first largest option. `permute`: a seed by which
        the options of choices are put in another order."""
        self.renderer, self.hard, self.permute = renderer, hard, permute

    def of(self, example: Example, epoch: int = 0) -> list[Line]:
        """The lines of a row's questions that have a weight. `epoch` draws other orders of
        options."""
        asked: dict[str, Question] = {}
        targets: dict[str, tuple[float, ...]] = {}
        for name, question in example.questions.items():
            if example.weights[name] > 0.0:
                target = example.targets[name]
                if self.permute is not None and isinstance(question, Choice):
                    key = f"{self.permute} {epoch} {state_key(example.state)} {name}"
                    question, target = permuted(question, target, random.Random(key))
                asked[name] = question
                targets[name] = _hard(target) if self.hard else target
        prompts = self._render(example, asked)
        return [
            Line(
                example,
                name,
                tuple(piece.ids for piece in prompt.pieces),
                tuple(prompt.labels.ids),
                targets[name],
                example.weights[name],
            )
            for name, prompt in zip(asked, prompts, strict=True)
        ]

    def _render(self, example: Example, asked: Mapping[str, Question]) -> list[Prompt]:
        return self.renderer.render(example.state, asked)


def permuted(
    question: Choice, target: tuple[float, ...], dice: random.Random
) -> tuple[Choice, tuple[float, ...]]:
    """The same choice with its options, and with them the target, in a drawn order."""
    options = list(question.criteria.items())
    order = list(range(len(options)))
    dice.shuffle(order)
    criteria = dict(options[i] for i in order)
    turned = Choice(instructions=question.instructions, criteria=criteria)
    return turned, tuple(target[i] for i in order)


def passes(groups: Iterable[list[Line]], limit: int) -> Iterator[Pass]:
    """Forests of at most `limit` tokens in the order given; `groups` are the lines of one row.

    A row stays whole where it fits alone; a line that is longer than the limit goes alone.
    """
    current = _Packing()
    for lines in groups:
        if current.lines and current.tokens + current.cost(lines) > limit:
            yield current.done()
            current = _Packing()
        for line in lines:
            if current.lines and current.tokens + current.cost([line]) > limit:
                yield current.done()
                current = _Packing()
            current.add(line)
    if current.lines:
        yield current.done()


def shares(groups: Sequence[list[Line]], limit: int, workers: int) -> tuple[list[Pass], list[Pass]]:
    """(forests for `workers` that compute at once, forests that are computed one by one).

    At once they have at most `limit` tokens together, and nearly equal size: rows go, the longest
    first, to whichever forest has the fewest tokens. A row that is longer than a worker's share is
    not taken apart, since each part would compute its state again: those are the `passes` that are
    to go alone, as all are with one worker.
    """
    if workers == 1:
        return [], list(passes(groups, limit))
    each = limit // workers
    costs = [_Packing().cost(lines) for lines in groups]
    short = [row for row, cost in enumerate(costs) if cost <= each]
    alone = list(passes([groups[row] for row in range(len(groups)) if costs[row] > each], limit))
    if not short:
        return [], alone
    count = workers * math.ceil(sum(costs[row] for row in short) / (each * workers))
    heaps: list[list[int]] = [[] for _ in range(count)]
    loads = [0] * count
    for row in sorted(short, key=lambda row: -costs[row]):
        least = loads.index(min(loads))
        heaps[least].append(row)
        loads[least] += costs[row]
    parts = [part for heap in heaps for part in passes([groups[row] for row in sorted(heap)], each)]
    return parts, alone


class _Packing:
    def __init__(self) -> None:
        self.lines: list[Line] = []
        self.tokens = 0
        self._known: set[Pieces] = set()

    def cost(self, lines: Iterable[Line]) -> int:
        """How many tokens `lines` would add: beginnings that are there already cost nothing."""
        fresh = {
            line.pieces[: n + 1]: len(piece)
            for line in lines
            for n, piece in enumerate(line.pieces)
            if line.pieces[: n + 1] not in self._known
        }
        return sum(fresh.values())

    def add(self, line: Line) -> None:
        self.tokens += self.cost([line])
        self._known.update(line.pieces[: n + 1] for n in range(len(line.pieces)))
        self.lines.append(line)

    def done(self) -> Pass:
        forest = Forest()
        for line in self.lines:
            forest.read(forest.add(line.pieces), line.labels)
        return Pass(
            forest.batch(),
            tuple(self.lines),
            torch.tensor([t for line in self.lines for t in line.target], dtype=torch.float32),
            torch.tensor([line.weight for line in self.lines], dtype=torch.float32),
        )


def check_lengths(
    examples: Iterable[Example], lines: Lines, limit: int, *, skip: bool
) -> tuple[list[Example], list[str]]:
    """(rows whose prompts all have at most `limit` tokens, where the others are).

    Raises ExampleError for the first longer one unless `skip`.
    """
    kept, long = [], []
    for example in examples:
        longest = max(lines.of(example), key=len)
        if len(longest) <= limit:
            kept.append(example)
        elif skip:
            long.append(example.where)
        else:
            raise ExampleError(
                f'{example.where}: the prompt of "{longest.name}" has {len(longest)} tokens, and '
                f"{limit} is the limit. Shorten the state, raise --max-tokens, or leave such rows "
                "out with --skip-long; nothing is ever cut off."
            )
    return kept, long


def _hard(target: tuple[float, ...]) -> tuple[float, ...]:
    best = target.index(max(target))
    return tuple(float(i == best) for i in range(len(target)))
