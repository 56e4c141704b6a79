"""Logits: collected in chunks, kept, and put back into their order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from readoff.bench.calibrate.collect import collect
from readoff.bench.records import Ask
from readoff.engine.answers import Decision, Usage, build_answer
from readoff.engine.questions import Question
from readoff.engine.text import Text
from readoff.learn.evaluate import logits
from readoff.learn.evaluate.decisions import read_decisions
from readoff.learn.evaluate.logits import kept_rows, modes_for
from tests.learn.evaluate.made import labelled, write


class Thinker:
    """Logits that depend on state, question and option; counts what it is asked."""

    def __init__(self) -> None:
        self.asked = 0
        self.key = {"model": "thinker"}

    @property
    def engine(self) -> Any:
        return self

    def clear_cache(self) -> None:
        pass

    def decide_many(
        self, requests: Sequence[tuple[Text, Mapping[str, Question]]], *, debias: str
    ) -> list[Decision]:
        assert debias == "none"
        self.asked += len(requests)
        return [self._decide(state, questions) for state, questions in requests]

    def _decide(self, state: Text, questions: Mapping[str, Question]) -> Decision:
        answers = {}
        for name, question in questions.items():
            z = [
                float(sum(map(ord, f"{state}{question.instructions}{option}")) % 97 + place)
                for place, option in enumerate(question.options)
            ]
            answers[name] = build_answer(question, z, [1 / len(z)] * len(z), None)
        return Decision(answers, Usage(1, 1, 0), 1.0, "thinker")


@pytest.fixture
def asks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Ask, ...]:
    monkeypatch.setattr(logits, "CHUNK", 5)
    return read_decisions([write(tmp_path / "t.jsonl", labelled(24))], ("test",)).asks


def test_rows_are_those_of_one_collection(asks: tuple[Ask, ...], tmp_path: Path) -> None:
    found = kept_rows(Thinker(), asks, modes_for("both"), tmp_path)
    expected = collect(Thinker(), asks, modes_for("both"))
    for mode, rows in expected.items():
        assert np.array_equal(found[mode].z, rows.z), mode
        assert (found[mode].fields, found[mode].options) == (rows.fields, rows.options)
    assert not np.array_equal(found["both"].z, found["none"].z)


def test_a_second_run_asks_nothing(asks: tuple[Ask, ...], tmp_path: Path) -> None:
    first = kept_rows(Thinker(), asks, ("none",), tmp_path)["none"]
    again = Thinker()
    steps: list[tuple[int, int]] = []
    found = kept_rows(again, asks, ("none",), tmp_path, tell=lambda *at: steps.append(at))
    assert again.asked == 0
    assert np.array_equal(found["none"].z, first.z)
    assert steps[0] == (0, 24)
    assert steps[-1] == (24, 24)


def test_a_lost_chunk_alone_is_asked_again(asks: tuple[Ask, ...], tmp_path: Path) -> None:
    first = kept_rows(Thinker(), asks, ("none",), tmp_path)["none"]
    files = sorted(tmp_path.glob("logits-*.npz"))
    assert len(files) == 5
    files[0].write_bytes(b"damaged")
    again = Thinker()
    found = kept_rows(again, asks, ("none",), tmp_path)["none"]
    assert 0 < again.asked <= 5
    assert np.array_equal(found.z, first.z)


def test_another_subject_is_asked_itself(asks: tuple[Ask, ...], tmp_path: Path) -> None:
    kept_rows(Thinker(), asks, ("none",), tmp_path)
    other = Thinker()
    other.key = {"model": "other"}
    kept_rows(other, asks, ("none",), tmp_path)
    assert other.asked == 24
