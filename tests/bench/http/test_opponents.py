"""Opponents judged on labelled data: what they leave unanswered is told, and counts."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from readoff.bench.http import sweep as sweeping
from readoff.bench.http.opponents import Opponents, measure
from readoff.bench.records import Ask, Workload
from readoff.bench.report.result import Result

from . import servers
from .test_endpoint import TEAM


def labelled(count: int) -> Workload:
    """Decisions whose answer is the first option, which a well-behaved server gives."""
    first = TEAM.questions["team"].options[0]
    asks = [Ask(f"state {n}", TEAM.questions, {"team": {first: 1.0}}) for n in range(count)]
    return Workload("labelled", "quality", "en", asks)


def judged(answer: Any, count: int) -> Result:
    result = Result({})
    plain = Workload("plain", "many", "en", [TEAM])
    with servers.serving(servers.systemone(answer)) as server:
        measure(Opponents([server.url]), plain, [labelled(count)], result, quick=True)
    return result


def one_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """No three hang-ups in a row, however the threads take turns."""
    monkeypatch.setattr(sweeping, "MAX_DOWN", 1000)


def test_what_got_no_answer_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    one_at_a_time(monkeypatch)
    turns = itertools.count()

    def sometimes(body: dict[str, Any]) -> Any:
        if body["state"] == TEAM.state or next(turns) % 4:
            return servers.decided(body)
        return None

    result = judged(sometimes, 12)
    [row] = result.quality
    assert (row["n"], row["answered"], row["accuracy"]) == (12, 0.75, 0.75)
    assert any("3 of the requests of labelled no answer" in note for note in result.notes)


def test_nothing_answered_is_a_row_of_failures(monkeypatch: pytest.MonkeyPatch) -> None:
    one_at_a_time(monkeypatch)
    result = judged(lambda b: servers.decided(b) if b["state"] == TEAM.state else None, 4)
    [row] = result.quality
    assert (row["n"], row["answered"], row["accuracy"], row["ece"]) == (4, 0.0, 0.0, None)


def test_nothing_in_time_is_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("readoff.bench.http.opponents.LABELLED_SECONDS", -1.0)
    result = judged(None, 4)
    assert not result.quality
    assert any("isn't judged on labelled" in note for note in result.notes)
