"""The demonstration's questions, how it times them, and what it says about it."""

from __future__ import annotations

import io
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from readoff.bench import json_generate, transformers_model
from readoff.bench.json_generate import Generated
from readoff.commands import demo_report, demo_run
from readoff.commands.demo_states import CASES, FAMILIES
from readoff.engine import source
from tests.readoff.fakes import FakeEngine


class FakeGenerator:
    """Takes a second for each answer by its own account; one question fails."""

    def __init__(self, log: list[str]) -> None:
        self.log = log

    def warmup(self) -> None:
        self.log.append("warm")

    def ask(self, state: Any, question: Any) -> Generated:
        self.log.append("json")
        failure = "no JSON object" if "checked" in str(question.instructions) else None
        value = None if failure else question.options[0]
        return Generated("{}", value, None if failure else 0.5, failure, 100, 20, 1.0)


class LoggingEngine(FakeEngine):
    def __init__(self, log: list[str]) -> None:
        super().__init__()
        self.log = log

    def decide(self, state: Any, questions: Any, *, legal_mass: bool = False) -> Any:
        self.log.append(f"read {len(questions)}")
        return super().decide(state, questions, legal_mass=legal_mass)


def run(
    monkeypatch: pytest.MonkeyPatch, repeats: int = 3
) -> tuple[demo_run.Report, list[str], FakeEngine]:
    log: list[str] = []
    monkeypatch.setattr(demo_run, "_generator", lambda engine, model: FakeGenerator(log))
    engine: Any = LoggingEngine(log)
    return demo_run.run(engine, "demo", repeats=repeats, generate=True), log, engine


def test_three_states_a_dozen_questions_six_families_three_kinds() -> None:
    questions = [question for case in CASES for question in case.questions.values()]
    assert len(CASES) == 3
    assert len(questions) == 12
    assert {question.type for question in questions} == {"choice", "score", "noul"}
    used = [family for case in CASES for family in case.families.values()]
    assert set(used) == set(FAMILIES)
    assert len(FAMILIES) == 6
    for case in CASES:
        assert list(case.families) == list(case.questions)


def test_the_contenders_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    report, log, engine = run(monkeypatch)
    assert engine.warm
    assert log[0] == "warm"
    one_state = ["read 4", *4 * ["read 1", "json"]]
    assert log[1:] == 3 * 3 * one_state
    assert report.repeats == 3


def test_slow_machines_make_fewer_rounds_and_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo_run, "BUDGET", 0.0)
    report, log, _ = run(monkeypatch)
    assert report.repeats == 1
    assert log.count("read 4") == 3
    assert "Medians of 1 round" in demo_report.summary(report)[0]


def test_times_are_medians(monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = iter([5.0, 1.0, 2.0] * 100)
    engine: Any = FakeEngine()
    decision = engine.decide("x", CASES[0].questions)
    monkeypatch.setattr(demo_run, "_timed", lambda *_: (decision, next(ticks)))
    times = demo_run.CaseTimes(CASES[0])
    for _ in range(3):  # five times a round: 5 1 2 5 1, then 2 5 1 2 5, then 1 2 5 1 2
        times.round(engine, None)
    report = times.report()
    assert report.seconds == 2.0
    assert [row.alone for row in report.rows] == [2.0, 2.0, 2.0, 2.0]


def test_the_totals_and_ratios_are_those_of_the_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    report, _, _ = run(monkeypatch)
    document = demo_report.as_json(report)
    assert document["json_ms"] == 12_000
    assert document["json_failures"] == 1
    ratio = 12.0 / report.together
    assert abs(document["speed_up"] - ratio) <= 0.01 * ratio
    rows = [row for state in document["states"] for row in state["decisions"]]
    assert sum(row["generated"]["failure"] is not None for row in rows) == 1
    assert rows[0]["generated"]["ms"] == 1000
    assert rows[0]["answer"]["choice"] == "billing"


def test_the_summary_says_what_was_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "\n".join(demo_report.summary(run(monkeypatch)[0]))
    same = "same base (JSON without the adapter, which writes none)"
    assert f"Medians of 3 rounds, {same}, float32, cpu, 1 thread, in turns" in text
    assert "prompts cold" in text
    assert "those about one state in one pass" in text
    assert "12.0 s (1 of 12 unusable)" in text
    assert "20 tokens on average" in text
    assert "Speed-up:" in text


def test_every_row_is_in_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    report, _, _ = run(monkeypatch)
    console = Console(width=140, record=True, file=io.StringIO())
    for case in report.cases:
        console.print(demo_report._table(case, with_json=True))
    text = console.export_text()
    for case in CASES:
        for name, family in case.families.items():
            assert name in text
            assert family in text
    assert "no JSON object" in text


@pytest.mark.parametrize(("model", "opened"), [("demo", "demo-base"), ("./mine", "./mine")])
def test_json_is_written_without_the_adapter_that_comes_with_demo(
    monkeypatch: pytest.MonkeyPatch, model: str, opened: str
) -> None:
    asked: list[object] = []
    monkeypatch.setattr(source, "resolve", lambda name: asked.append(name) or name)
    monkeypatch.setattr(
        transformers_model, "transformers_model", lambda checkpoint, **how: checkpoint
    )
    monkeypatch.setattr(json_generate, "JsonGenerator", lambda opponent, tokenizer: opponent)
    engine: Any = SimpleNamespace(dtype=None, device=None, renderer=SimpleNamespace(tokenizer=None))
    assert demo_run._generator(engine, model) == opened
    assert asked == [opened]


def test_what_differs_between_the_contenders_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    report, _, _ = run(monkeypatch, 1)
    assert (
        "same base (JSON without the adapter, which writes none)" in demo_report.summary(report)[0]
    )
    mine = replace(report, model="./mine")
    assert "same weights" in demo_report.summary(mine)[0]
