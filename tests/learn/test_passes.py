"""Lines and forests: the tokens of serving, no state twice, no prompt cut."""

from __future__ import annotations

import random

import pytest

from readoff.engine.card import Card
from readoff.engine.prompt import Renderer
from readoff.engine.questions import Choice
from readoff.engine.template import Template
from readoff.learn.errors import ExampleError
from readoff.learn.passes import Lines, check_lengths, passes, permuted
from tests import tokenizers

from .rig import example


@pytest.fixture(scope="module")
def renderer() -> Renderer:
    tokenizer = tokenizers.tiny()
    return Renderer(tokenizer, Template.load(tokenizer, "state-first"), Card.default().labels)


def test_a_line_is_what_serving_reads(renderer: Renderer) -> None:
    row = example(["one", "two"], weight={"angry": 0, "due": 0.25})
    found = Lines(renderer).of(row)
    assert [line.name for line in found] == ["route", "due"]
    assert [line.weight for line in found] == [1.0, 0.25]
    prompts = dict(zip(row.questions, renderer.render(row.state, row.questions), strict=True))
    for line in found:
        assert line.pieces == tuple(piece.ids for piece in prompts[line.name].pieces)
        assert line.labels == prompts[line.name].labels.ids
        assert line.target == row.targets[line.name]
        assert len(line) == len(prompts[line.name])


def test_a_state_is_computed_once(renderer: Renderer) -> None:
    lines = Lines(renderer).of(example("A state of some length, read by three questions."))
    (part,) = passes([lines], 10_000)
    distinct = {line.pieces[: n + 1] for line in lines for n in range(len(line.pieces))}
    assert part.tokens == sum(len(chain[-1]) for chain in distinct)
    assert part.batch.label_offsets.tolist() == [0, 3, 6, 8]
    assert part.targets.tolist() == [t for line in lines for t in line.target]


@pytest.mark.parametrize("limit", [1, 200, 400, 900, 100_000])
def test_forests_keep_to_the_limit(renderer: Renderer, limit: int) -> None:
    groups = [Lines(renderer).of(example(f"State number {i}.", weight=1 + i)) for i in range(9)]
    found = list(passes(groups, limit))
    assert [line for part in found for line in part.lines] == [x for g in groups for x in g]
    for part in found:
        assert part.tokens <= limit or len(part.lines) == 1
        assert part.weights.tolist() == [line.weight for line in part.lines]
    whole = {len({line.example.weight for line in part.lines}) for part in found}
    if limit == 900:
        assert len(found) < len(groups)
        assert max(whole) > 1


def test_hard_targets(renderer: Renderer) -> None:
    found = {line.name: line.target for line in Lines(renderer, hard=True).of(example())}
    assert found == {"route": (0.0, 1.0, 0.0), "angry": (0.0, 0.0, 1.0), "due": (1.0, 0.0)}


def test_options_move_with_their_targets(renderer: Renderer) -> None:
    question = Choice(criteria={name: name.upper() for name in "abcdef"})
    target = (0.1, 0.2, 0.3, 0.4, 0.0, 0.0)
    turned, moved = permuted(question, target, random.Random(1))
    assert turned.options != question.options
    before = dict(zip(question.options, target, strict=True))
    assert dict(zip(turned.options, moved, strict=True)) == before
    assert turned.criteria == question.criteria


def test_permutation_is_drawn_by_seed_and_epoch(renderer: Renderer) -> None:
    rows = [example(f"State {i}.") for i in range(8)]

    def orders(seed: int, epoch: int) -> list[tuple[float, ...]]:
        lines = Lines(renderer, permute=seed)
        return [lines.of(row, epoch)[0].target for row in rows]

    assert orders(1, 0) == orders(1, 0)
    assert len({str(orders(seed, epoch)) for seed in (1, 2) for epoch in (0, 1)}) == 4
    lines = Lines(renderer, permute=1).of(rows[0])
    assert [line.target for line in lines[1:]] == [(0.25, 0.0, 0.75), (1.0, 0.0)]


def test_long_prompts(renderer: Renderer) -> None:
    short, long = example("short"), example("long " * 100)
    lines = Lines(renderer)
    longest = max(map(len, lines.of(short)))
    assert check_lengths([short, short], lines, longest, skip=False) == ([short, short], [])
    with pytest.raises(ExampleError, match=rf'^rows, line 1: .*"\w+" has \d+ tokens.*{longest} is'):
        check_lengths([short, long], lines, longest, skip=False)
    assert check_lengths([short, long], lines, longest, skip=True) == ([short], ["rows, line 1"])
