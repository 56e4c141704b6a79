"""The ladder from end to end on tiny models: gates, planted faults, speeds, Ctrl-C."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
import torch

from readoff.bench.gate import FP32, GateError
from readoff.bench.ladder import Ladder, chunks
from readoff.bench.ladder_result import Progress
from readoff.bench.records import Ask, Given, Run
from readoff.bench.rungs import RUNGS, Rung, standard_rungs
from readoff.bench.rungs.greedy_json import GreedyJson
from readoff.bench.rungs.label_rows import LabelRows
from readoff.bench.rungs.shared_state import SharedState
from readoff.bench.rungs.warm_state import WarmState
from readoff.engine.card import Card
from readoff.engine.card_fields import Temperature
from readoff.engine.checkpoint import Checkpoint, open_checkpoint
from readoff.engine.engine import Engine
from readoff.engine.errors import ReadoffError
from readoff.engine.prompt import Prompt, Renderer
from readoff.engine.questions import Question
from readoff.engine.text import Text
from tests.bench.asks import ask, workload
from tests.engine.models_on_disk import save_decider

READOUTS = ("L2t", "L2", "L3", "L4", "L5", "L6")
HOT = Card(temperature=Temperature(choice=2.5, score=0.5, noul=1.5))


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Checkpoint:
    folder = tmp_path_factory.mktemp("model")
    save_decider(folder, "qwen3_5", layers=4)
    return open_checkpoint(folder)


@pytest.fixture(scope="module")
def engine(checkpoint: Checkpoint) -> Engine:
    return Engine.from_pretrained(checkpoint.tokenizer_files, dtype="fp32", card=HOT)


def ladder(engine: Engine, checkpoint: Checkpoint, *rungs: str, **options: object) -> Ladder:
    chosen = standard_rungs(checkpoint, engine.dtype, only=rungs or READOUTS)
    return Ladder(engine, checkpoint, **{"rungs": chosen, "repeats": 2, **options})  # type: ignore[arg-type]


def test_all_rungs_of_a_tiny_model(tmp_path: Path) -> None:
    pytest.importorskip("xgrammar")
    save_decider(tmp_path, "qwen2", layers=2)
    checkpoint = open_checkpoint(tmp_path)
    engine = Engine.from_pretrained(tmp_path, dtype="fp32", card=HOT)
    requests = workload(ask("It was paid twice."), ask("It works."))
    seen: list[Progress] = []
    rungs = standard_rungs(checkpoint, engine.dtype)
    assert isinstance(rungs[0], GreedyJson)
    rungs[0].max_new_tokens = 8  # random weights never end an answer
    result = Ladder(engine, checkpoint, rungs=rungs, repeats=2, progress=seen.append).run(requests)
    assert [report.name for report in result.reports] == list(RUNGS)
    assert result.skipped == {}
    assert not result.interrupted
    by_name = {report.name: report for report in result.reports}
    for name, report in by_name.items():
        assert len(report.seconds) == 2 * 2
        assert min(report.seconds) > 0
        assert report.decisions == 2 * 2 * 3
        assert report.flops
        assert report.bytes_moved
        assert set(report.speedups) == {"L0", "L1", "L1j", "L2t"} - {name}
        assert (report.tokens_generated > 0) == (name in ("L0", "L1", "L1j"))
    for name, below in zip(READOUTS[1:], READOUTS, strict=False):
        gate = by_name[name].gate
        assert gate is not None
        assert (gate.against, gate.ok) == (below, True)
        assert gate.max_dp is not None
        assert gate.bound == (FP32.transformers if below == "L2t" else 1e-5)
    assert by_name["L2t"].gate is None
    told, jumped = by_name["L1"].gate, by_name["L1j"].gate
    assert told is not None
    assert told.note == "told, not judged"
    assert jumped is not None
    assert (jumped.against, jumped.agreement) == ("L1", 1.0)
    assert by_name["L0"].failures == 12
    assert by_name["L1"].failures == by_name["L1j"].failures == 0
    assert by_name["L1j"].tokens_generated == by_name["L1"].tokens_generated
    assert by_name["L1j"].bytes_moved < by_name["L1"].bytes_moved  # type: ignore[operator]
    assert by_name["L4"].tokens_computed < by_name["L3"].tokens_computed
    assert by_name["L5"].tokens_computed < by_name["L4"].tokens_computed
    assert set(result.modelled) == {"L0", "L1", "L1j"}
    assert all(value > 1 for value in result.modelled.values())
    assert {note.phase for note in seen} == {"prepare", "yardstick", "gate", "measure"}
    assert all(0 <= note.done < max(1, note.total) for note in seen)


@pytest.mark.parametrize("architecture", ["qwen2", "qwen3"])
def test_the_readouts_agree_on_the_other_architectures(architecture: str, tmp_path: Path) -> None:
    save_decider(tmp_path, architecture, layers=2)  # type: ignore[arg-type]
    engine = Engine.from_pretrained(tmp_path, dtype="fp32", card=HOT)
    result = ladder(engine, open_checkpoint(tmp_path), repeats=0).run(workload())
    assert [report.name for report in result.reports] == list(READOUTS)
    assert all(report.seconds == () for report in result.reports)
    assert result.answers["L5"][0].given["team"].probabilities is not None


def test_a_narrow_dtype_measures_its_own_bound(checkpoint: Checkpoint) -> None:
    engine = Engine.from_pretrained(checkpoint.tokenizer_files, dtype="bf16", card=HOT)
    result = ladder(engine, checkpoint, repeats=0).run(workload())
    assert result.bounds is not None
    assert result.bounds.distance is not None
    assert 1e-5 < result.bounds.distance < 0.2
    assert result.bounds.questions == 9
    assert result.bounds.ours == pytest.approx(1.5 * result.bounds.distance)


class Shifted(LabelRows):
    """A fault: every probability stands at the next option."""

    def answer(self, ask: Ask) -> Run:
        run = super().answer(ask)
        given = {name: self._shift(ask, name, g) for name, g in run.given.items()}
        return replace(run, given=given)

    @staticmethod
    def _shift(ask: Ask, name: str, given: Given) -> Given:
        p = given.probabilities or ()
        p = (p[-1], *p[:-1])
        return Given(ask.questions[name].options[p.index(max(p))], p)


class Cold(SharedState):
    """A fault: the card's temperature is ignored."""

    def prepare(self, engine: Engine, workload: object) -> None:
        plain = Engine(engine.backbone, engine.renderer, Card.default())
        super().prepare(plain, workload)  # type: ignore[arg-type]


class Leaking(WarmState):
    """A fault: every question sees the one before it, as a chain instead of a fork."""

    def prepare(self, engine: Engine, workload: object) -> None:
        renderer = Chaining(engine.renderer.tokenizer, engine.renderer.template, engine.card.labels)
        super().prepare(Engine(engine.backbone, renderer, engine.card), workload)  # type: ignore[arg-type]


class Chaining(Renderer):
    def render(self, state: Text, questions: Mapping[str, Question]) -> list[Prompt]:
        prompts = super().render(state, questions)
        chained = prompts[:1]
        for before, prompt in pairwise(prompts):
            *shared, leaf = prompt.pieces
            chained.append(Prompt((*shared, before.pieces[-1], leaf), prompt.labels))
        return chained


class Drifting(SharedState):
    """A fault that comes with the clock: right when it is gated, wrong when it is timed."""

    def restart(self) -> None:
        super().restart()
        self.prepare(Engine(self.engine.backbone, self.engine.renderer), workload())


FAULTS: Mapping[str, tuple[Rung, str]] = {
    "labels shifted by one": (Shifted(), "L2"),
    "a temperature ignored": (Cold(), "L3"),
    "a question that sees another": (Leaking(), "L4"),
    "another answer when timed": (Drifting(), "L4 before the clock started"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_stops_the_run(engine: Engine, checkpoint: Checkpoint, fault: str) -> None:
    planted, below = FAULTS[fault]
    rungs = [
        planted if rung.name == planted.name else rung
        for rung in standard_rungs(checkpoint, engine.dtype, only=READOUTS[1:])
    ]
    measured: list[str] = []

    def watch(progress: Progress) -> None:
        if progress.phase == "measure":
            measured.append(progress.rung)

    run = Ladder(engine, checkpoint, rungs=rungs, repeats=1, progress=watch)
    with pytest.raises(GateError, match=f"rung {planted.name} doesn't answer as") as red:
        run.run(workload())
    assert red.value.rung == planted.name
    assert red.value.gate.against == ("L4" if planted.name == "L5" else below)
    if not below.endswith("started"):
        assert measured == []  # no speed was taken


def test_ctrl_c_keeps_what_was_measured(engine: Engine, checkpoint: Checkpoint) -> None:
    def stop(progress: Progress) -> None:
        if progress.phase == "measure" and progress.rung == "L4" and progress.done == 2:
            raise KeyboardInterrupt

    result = ladder(engine, checkpoint, "L2t", "L3", "L4", progress=stop).run(workload())
    assert result.interrupted
    found = {report.name: len(report.seconds) for report in result.reports}
    assert found == {"L2t": 3, "L3": 3, "L4": 2}
    assert result.reports[2].decisions == 2 * 3
    assert result.reports[2].speedups["L2t"].ratio > 0


def test_ctrl_c_before_the_clock_leaves_nothing(engine: Engine, checkpoint: Checkpoint) -> None:
    def stop(progress: Progress) -> None:
        if progress.phase == "gate":
            raise KeyboardInterrupt

    result = ladder(engine, checkpoint, "L3", progress=stop).run(workload())
    assert result.interrupted
    assert result.reports == []


def test_what_is_not_installed_is_said_in_a_line(
    engine: Engine, checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "xgrammar", None)
    monkeypatch.delitem(sys.modules, "readoff.bench.transformers_model", raising=False)
    monkeypatch.setitem(sys.modules, "transformers", None)
    result = ladder(engine, checkpoint, *RUNGS, repeats=1).run(workload())
    assert set(result.skipped) == {"L0", "L1", "L1j", "L2t"}
    assert "transformers" in result.skipped["L2t"]
    assert "pip install" in result.skipped["L1"]
    assert all("\n" not in line for line in result.skipped.values())
    assert [report.name for report in result.reports] == ["L2", "L3", "L4", "L5", "L6"]


def test_one_request_has_no_batch(engine: Engine, checkpoint: Checkpoint) -> None:
    result = ladder(engine, checkpoint, "L4", "L6", repeats=1).run(workload(ask()))
    assert list(result.skipped) == ["L6"]
    assert len(result.reports) == 1


def test_unknown_rungs_are_refused(checkpoint: Checkpoint) -> None:
    with pytest.raises(ReadoffError, match="no rung 'L9'"):
        standard_rungs(checkpoint, torch.float32, only=["L2", "L9"])


@pytest.mark.parametrize(
    ("count", "sizes"), [(0, []), (1, [1]), (8, [8]), (9, [4, 5]), (17, [5, 6, 6])]
)
def test_groups_are_equal(count: int, sizes: list[int]) -> None:
    assert [len(group) for group in chunks([ask()] * count, 8)] == sizes
