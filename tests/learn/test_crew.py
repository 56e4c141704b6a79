"""Passes at once: their order, their errors, and the same gradients as one after the other."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from readoff.learn.crew import Crew
from readoff.learn.passes import Line, shares
from readoff.learn.training import Source, train
from tests.engine.models_on_disk import save_decider

from .rig import example, lines_of, load
from .trainings import ADAPTER, SMALL, curve, stop_at


@pytest.fixture(autouse=True)
def two_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def test_all_work_at_once_and_results_come_in_order() -> None:
    meet = threading.Barrier(2, timeout=20)
    shares_of: list[int] = []

    def work(number: int) -> int:
        shares_of.append(torch.get_num_threads())
        meet.wait()  # passes only when two are there
        return 10 * number

    with Crew(2) as crew:
        assert list(crew.map(work, range(6))) == [0, 10, 20, 30, 40, 50]
    assert shares_of == [1] * 6
    assert torch.get_num_threads() == 2
    fresh: list[int] = []
    new = threading.Thread(target=lambda: fresh.append(torch.get_num_threads()))
    new.start()
    new.join()
    assert fresh == [2]


def test_no_more_workers_than_threads() -> None:
    assert Crew(9).size == 2
    torch.set_num_threads(1)
    with Crew(2) as crew:
        assert crew.size == 1
        here = threading.get_ident()
        assert list(crew.map(lambda _: threading.get_ident(), range(3))) == [here] * 3


def test_an_error_comes_in_its_turn_and_nothing_goes_on() -> None:
    done: list[int] = []

    def work(number: int) -> int:
        if number == 1:
            raise ValueError("the second")
        done.append(number)
        return number

    with Crew(2) as crew:
        found = crew.map(work, range(100))
        assert next(found) == 0
        with pytest.raises(ValueError, match="the second"):
            next(found)
        assert set(done) <= {0, 2, 3}
        assert list(crew.map(work, [5])) == [5]


def lines(tmp_path: Path, states: int) -> list[list[Line]]:
    save_decider(tmp_path, "qwen2")
    return lines_of(load(tmp_path)[1], [example("x " * (7 * i % 90)) for i in range(states)])


@pytest.mark.parametrize("limit", [1, 300, 2000, 100_000])
@pytest.mark.parametrize("workers", [2, 3])
def test_shares_are_even_and_hold_every_line_once(workers: int, limit: int, tmp_path: Path) -> None:
    groups = lines(tmp_path, 30)
    parts = shares(groups, limit, workers)
    found = Counter((line.example.state, line.name) for part in parts for line in part.lines)
    assert found == Counter((line.example.state, line.name) for g in groups for line in g)
    longest = max(len(line) for g in groups for line in g)
    assert all(part.tokens <= max(limit // workers, longest) for part in parts)
    if limit == 100_000:
        assert len(parts) == workers
        assert max(p.tokens for p in parts) <= 1.1 * min(p.tokens for p in parts)


def run(model: Path, data: Path, out: Path, at_once: int, **more: Any) -> Any:
    source = Source(model=str(model), dtype="fp32", thread_count=2)
    settings = replace(SMALL, at_once=at_once, epochs=2, max_steps=6)
    return train(source, [data], out, settings, **more)


def test_the_same_training(model: Path, data: Path, tmp_path: Path) -> None:
    alone = run(model, data, tmp_path / "alone", 1)
    found = [run(model, data, tmp_path / name, 2) for name in ("one", "two")]
    assert curve(found[0]) == curve(found[1])  # whichever pass was done first
    one, two = ((tmp_path / name / ADAPTER).read_bytes() for name in ("one", "two"))
    assert one == two
    for mine, theirs in zip(curve(found[0]), curve(alone), strict=True):
        assert mine.keys() == theirs.keys()
        for name in mine.keys() & {"loss", "nll", "norm", "valid_nll"}:
            assert mine[name] == pytest.approx(theirs[name], rel=1e-3), name


def test_interrupted_between_two_passes(model: Path, data: Path, tmp_path: Path) -> None:
    whole = run(model, data, tmp_path / "whole", 2)
    stopped = run(model, data, tmp_path / "cut", 2, **stop_at(3, 0.3))
    assert stopped.ending == "interrupted"
    gone_on = run(model, data, tmp_path / "cut", 2, resume=True)
    assert curve(gone_on) == curve(whole)
