"""What a row says in the file: distributions to train on, labels to measure with."""

from __future__ import annotations

import json
from typing import Any

from readoff.engine.questions import Choice, Score
from readoff.learn.data.draft import Draft
from readoff.learn.data.messages import Split
from readoff.learn.data.row import Row

LEVELS = Draft("relevance", "pair", Score(criteria=["a", "b", "c"]), {"1": 0.75, "2": 0.25})
OPTIONS = Draft("rewriting", "pick", Choice(criteria={"a": None, "b": None}), {"a": 0.4, "b": 0.6})


def answers(split: Split, draft: Draft, count: int = 400) -> list[Any]:
    names = [f"q{n}" for n in range(count)]
    row = Row("text", dict.fromkeys(names, draft), "en", split, "made", "CC0-1.0", ("text",))
    found = json.loads(row.line(dict.fromkeys(names, 1.0)))
    return [found["answers"][name] for name in names]


def test_training_targets_are_distributions() -> None:
    assert answers("train", LEVELS, 1) == [{"1": 0.75, "2": 0.25}]
    assert answers("train", OPTIONS, 1) == [{"a": 0.4, "b": 0.6}]


def test_levels_to_measure_with_are_drawn_from_the_target() -> None:
    for split in ("valid", "test"):
        drawn = answers(split, LEVELS)
        assert set(drawn) == {1, 2}
        assert 0.68 < drawn.count(1) / len(drawn) < 0.82
        assert drawn == answers(split, LEVELS)


def test_other_labels_to_measure_with_are_the_largest() -> None:
    assert set(answers("test", OPTIONS)) == {"b"}
