"""Graphs against our own backbone: lengths around the chunk, rows, pasts, repeated tokens."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytest

from readoff.export.graph.options import Flavour, GraphOptions
from tests.export.graphs import Array, Graph, Reference, ids, tiny
from tests.models import ARCHITECTURES, Architecture

LENGTHS = (1, 63, 64, 65, 200)
CLOSE = 1e-4
"""Of logits near 1; the published bound is 1e-3."""


class Pair(NamedTuple):
    graph: Graph
    reference: Reference


Made = Callable[[Architecture, Flavour], Pair]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """Each pair is built once."""
    pairs: dict[tuple[Architecture, Flavour], Pair] = {}

    def make(architecture: Architecture, flavour: Flavour) -> Pair:
        if (architecture, flavour) not in pairs:
            checkpoint = tiny(tmp_path_factory.mktemp("model"), architecture)
            graph = Graph(checkpoint, GraphOptions(flavour=flavour))
            pairs[architecture, flavour] = Pair(graph, Reference(checkpoint))
        return pairs[architecture, flavour]

    return make


FLAVOURS: tuple[Flavour, ...] = ("standard", "contrib")
every_graph = pytest.mark.parametrize("flavour", FLAVOURS)
every_architecture = pytest.mark.parametrize("architecture", ARCHITECTURES)


def assert_close(found: Array, expected: Array) -> None:
    assert np.abs(found - expected).max() <= CLOSE
    assert (found.argmax(1) == expected.argmax(1)).all()


@every_graph
@every_architecture
@pytest.mark.parametrize("length", LENGTHS)
def test_cold_and_continued(
    made: Made, architecture: Architecture, flavour: Flavour, length: int
) -> None:
    graph, reference = made(architecture, flavour)
    state, question = ids(length, 1), ids(40, 2)
    assert_close(graph.run([state]), reference.logits([[state]]))
    past = graph.after(graph.empty(), 0, 0, length)
    assert_close(graph.run([question], past, [length]), reference.logits([[state, question]]))
    assert_close(graph.run([state[:1]], past, [length]), reference.logits([[state, state[:1]]]))


@every_graph
@every_architecture
@pytest.mark.parametrize("length", LENGTHS)
def test_questions_share_a_past_of_one_row(
    made: Made, architecture: Architecture, flavour: Flavour, length: int
) -> None:
    graph, reference = made(architecture, flavour)
    state = ids(70, 3)
    rows = [ids(length, 4), ids(max(1, length // 2), 5), ids(max(1, length - 1), 6)]
    cold = graph.run(rows)
    assert_close(cold, reference.logits([[row] for row in rows]))
    graph.run([state])
    past = graph.after(graph.empty(), 0, 0, 70)
    found = graph.run(rows, past, [70])
    assert_close(found, reference.logits([[state, row] for row in rows]))


@every_graph
@every_architecture
def test_repeated_tokens(made: Made, architecture: Architecture, flavour: Flavour) -> None:
    graph, reference = made(architecture, flavour)
    for token in (5, 6):
        row = [token] * 200
        assert_close(graph.run([row]), reference.logits([[row]]))
        past = graph.after(graph.empty(), 0, 0, 200)
        assert_close(graph.run([row], past, [200]), reference.logits([[row, row]]))


@every_graph
@every_architecture
def test_every_row_leaves_its_own_past(
    made: Made, architecture: Architecture, flavour: Flavour
) -> None:
    """From rows of different lengths; then rows with different pasts run together."""
    graph, reference = made(architecture, flavour)
    states = [ids(65, 7), ids(1, 8), ids(30, 9)]
    questions = [ids(3, 10), ids(66, 11), ids(20, 12)]
    expected = reference.logits([list(pair) for pair in zip(states, questions, strict=True)])
    graph.run(states)
    pasts = [graph.after(graph.empty(), 0, i, len(row)) for i, row in enumerate(states)]
    for i, question in enumerate(questions):
        found = graph.run([question], pasts[i], [len(states[i])])
        assert_close(found, expected[i : i + 1])
    together = {}
    for name in pasts[0]:
        parts = [past[name] for past in pasts]
        longest = max(part.shape[1] for part in parts)
        if name.endswith(("key", "value")):  # behind a row's true keys, anything
            parts = [
                np.pad(p, ((0, 0), (0, longest - p.shape[1]), (0, 0), (0, 0)), constant_values=9)
                for p in parts
            ]
        together[name] = np.concatenate(parts)
    assert_close(graph.run(questions, together, [len(s) for s in states]), expected)
    again = [graph.after(together, len(s), i, len(questions[i])) for i, s in enumerate(states)]
    for i, tail in enumerate((ids(5, 13), ids(70, 14), ids(2, 15))):
        found = graph.run([tail], again[i], [len(states[i]) + len(questions[i])])
        assert_close(found, reference.logits([[states[i], questions[i], tail]]))


@every_graph
@every_architecture
def test_padding_is_not_seen(made: Made, architecture: Architecture, flavour: Flavour) -> None:
    graph, _ = made(architecture, flavour)
    rows = [ids(3, 16), ids(70, 17)]
    graph.run(rows, padding=7)
    first = dict(graph.last)
    graph.run(rows, padding=400)
    for name, value in graph.last.items():
        both = (value, first[name])
        if name.endswith(("key", "value")):
            both = (both[0][0, :3], both[1][0, :3])
        assert np.array_equal(both[0], both[1]), name


@every_graph
def test_a_row_may_be_run_in_parts(made: Made, flavour: Flavour) -> None:
    graph, reference = made("qwen3_5", flavour)
    row, past = ids(200, 18), graph.empty()
    for start, stop in ((0, 1), (1, 64), (64, 129), (129, 131), (131, 200)):
        found = graph.run([row[start:stop]], past, [start])
        past = graph.after(past, start, 0, stop - start)
    assert_close(found, reference.logits([[row]]))


@every_graph
@pytest.mark.parametrize("value_heads", [2, 6])
def test_value_heads_of_other_ratios_and_untied_heads(
    flavour: Flavour, value_heads: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("model")
    checkpoint = tiny(folder, "qwen3_5", value_heads=value_heads, tied=False, layers=3)
    assert checkpoint.config.layer_types[-1] == "linear_attention"
    graph = Graph(checkpoint, GraphOptions(flavour=flavour))
    rows = [ids(65, 19), ids(9, 20)]
    assert_close(graph.run(rows), Reference(checkpoint).logits([[row] for row in rows]))
