"""Which rungs run where, and when a workload's rounds end."""

from __future__ import annotations

import pytest

from readoff.bench import pace
from readoff.bench.ladder_result import Progress
from readoff.bench.pace import Pace
from readoff.bench.records import Workload
from readoff.bench.rungs.standard import RUNGS
from readoff.bench.selection import QUICK_SECONDS, Effort, effort, rungs_for, sample, spared

from .asks import ask, workload

MANY = workload()
PAPER = Workload("paper-en", "paper", "en", [ask(names="team")] * 2)
SEARCH = Workload("search", "search", "en", [ask(names="due")] * 6)


def test_the_users_choice_has_the_last_word() -> None:
    for one in (MANY, PAPER, SEARCH):
        assert rungs_for(one, RUNGS, quick=True, wanted=("L4", "L0")) == ["L0", "L4"]
        assert effort(one, quick=True, repeats=7) == Effort(7, 7, float("inf"))


def test_a_quick_run_climbs_the_whole_ladder_on_the_paper_shaped_workload() -> None:
    assert rungs_for(PAPER, RUNGS, quick=True, wanted=None) == list(RUNGS)
    assert "L0" not in rungs_for(MANY, RUNGS, quick=True, wanted=None)
    assert {"L1", "L2t", "L4"} <= set(rungs_for(MANY, RUNGS, quick=True, wanted=None))


def test_no_json_is_written_for_many_questions() -> None:
    large = ask()
    questions = {f"q{n}": large.questions["team"] for n in range(9)}
    one = Workload("many", "many", "en", [type(large)(large.state, questions)])
    assert set(rungs_for(one, RUNGS, quick=False, wanted=None)) == {*RUNGS} - {"L0", "L1", "L1j"}
    assert sample([one, PAPER], quick=True) == [PAPER.asks[0]]


def test_a_late_quick_run_spares_what_no_target_needs() -> None:
    late = QUICK_SECONDS + 1
    assert spared(SEARCH, late, quick=True)
    assert not spared(MANY, late, quick=True)
    assert not spared(SEARCH, late, quick=False)
    assert not spared(SEARCH, 1.0, quick=True)
    assert effort(MANY, quick=True, repeats=None, elapsed=late).least == 1
    assert effort(MANY, quick=True, repeats=None, elapsed=1.0).least == 2


@pytest.mark.parametrize(("seconds", "rounds"), [(3.5, 3), (100.0, 8), (0.1, 2)])
def test_rounds_end_when_another_one_would_be_late(
    seconds: float, rounds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two rungs, two requests, a second a round; at least two rounds."""
    clock = iter(range(1000))
    monkeypatch.setattr(pace.time, "perf_counter", lambda: next(clock) / 4)
    made = Pace(Effort(8, 2, seconds))
    done = 0
    try:
        for number in range(16):
            for rung in ("L3", "L4"):
                made.look(Progress("w", rung, "measure", number, 16))
            done = number + 1
    except KeyboardInterrupt:
        assert made.enough
    assert done == 2 * rounds
    assert made.enough == (rounds < 8)
