"""Passes at once: their order, their errors, and the same gradients as one after the other."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pytest
import torch

from readoff.kernels.linear import int8
from readoff.learn.crew import Crew
from readoff.learn.passes import Line, passes, shares
from readoff.learn.training import Source, train
from tests.engine.models_on_disk import save_decider

from .rig import example, lines_of, load
from .trainings import ADAPTER, SMALL, curve, stop_at

needs_vnni = pytest.mark.skipif(not int8.vnni()[0], reason=int8.vnni()[1])


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


class Slow:
    """Work that takes a while, but for number 0; who is in it, and who has ended it."""

    def __init__(self, bad: int | None = None) -> None:
        self.bad, self.busy = bad, threading.Event()
        self.running: set[int] = set()
        self.ended: set[int] = set()

    def __call__(self, number: int) -> int:
        if number == self.bad:
            assert self.busy.wait(20)  # raises while another one is at work
            raise ValueError("the second")
        self.running.add(number)
        if number > 0:
            self.busy.set()
            time.sleep(0.2)
        self.running.remove(number)
        self.ended.add(number)
        return number


def test_an_error_comes_in_its_turn_and_nothing_goes_on() -> None:
    work = Slow(bad=1)
    with Crew(2) as crew:
        found = crew.map(work, range(100))
        assert next(found) == 0
        with pytest.raises(ValueError, match="the second"):
            next(found)
        # What ran was waited for; what was queued behind it is never begun.
        assert not work.running
        before = set(work.ended)
        assert list(crew.map(work, [200])) == [200]
        assert work.ended == before | {200}


def test_whoever_stops_taking_waits_for_what_runs() -> None:
    work = Slow()
    with Crew(2) as crew:
        found = crew.map(work, range(100))
        assert next(found) == 0
        found.close()
        assert not work.running
        before = set(work.ended)
        time.sleep(0.3)
        assert work.ended == before
    assert not [thread for thread in threading.enumerate() if "readoff pass" in thread.name]


def test_threads_are_shared_out_whole_and_end_with_the_process() -> None:
    torch.set_num_threads(3)
    counts: list[int] = []
    meet = threading.Barrier(2, timeout=20)

    def work(_: int) -> bool:
        counts.append(torch.get_num_threads())
        meet.wait()
        return threading.current_thread().daemon

    with Crew(2) as crew:
        assert list(crew.map(work, range(2))) == [True, True]
    assert sorted(counts) == [1, 2]


def lines(tmp_path: Path, states: int) -> list[list[Line]]:
    save_decider(tmp_path, "qwen2")
    return lines_of(load(tmp_path)[1], [example("x " * (7 * i % 90)) for i in range(states)])


@pytest.mark.parametrize("limit", [1, 300, 2000, 100_000])
@pytest.mark.parametrize("workers", [2, 3])
def test_shares_are_even_and_hold_every_line_once(workers: int, limit: int, tmp_path: Path) -> None:
    groups = lines(tmp_path, 30)
    parts, alone = shares(groups, limit, workers)
    found = Counter((line.example.state, line.name) for p in parts + alone for line in p.lines)
    assert found == Counter((line.example.state, line.name) for g in groups for line in g)
    longest = max(len(line) for g in groups for line in g)
    assert all(part.tokens <= limit // workers for part in parts)
    assert all(part.tokens <= max(limit, longest) for part in alone)
    if limit == 100_000:
        assert len(parts) == workers
        assert max(p.tokens for p in parts) <= 1.1 * min(p.tokens for p in parts)


def test_a_long_state_is_computed_once_whoever_is_there(tmp_path: Path) -> None:
    save_decider(tmp_path, "qwen2")
    texts = ["long " * 100, "x", "y", "long " * 101]
    groups = lines_of(load(tmp_path)[1], [example(text) for text in texts])
    each = [[part.tokens for part in passes([group], 10_000)] for group in groups]
    assert all(len(parts) == 1 for parts in each)
    limit = 2 * each[0][0] - 2  # half of it is less than a long state, and more than a short one
    assert each[1][0] <= limit // 2 < each[0][0] <= limit
    together, alone = shares(groups, limit, 2)
    assert {line.example.state for part in alone for line in part.lines} == {texts[0], texts[3]}
    assert sum(part.tokens for part in alone) <= each[0][0] + each[3][0]
    assert {line.example.state for part in together for line in part.lines} == {"x", "y"}


def run(
    model: Path,
    data: Path,
    out: Path,
    at_once: int,
    quantize: Literal["int8"] | None = None,
    **more: Any,
) -> Any:
    source = Source(model=str(model), dtype="fp32", thread_count=2)
    settings = replace(SMALL, at_once=at_once, quantize=quantize, epochs=2, max_steps=6)
    return train(source, [data], out, settings, **more)


@pytest.mark.parametrize("quantize", [None, pytest.param("int8", marks=needs_vnni)])
def test_the_same_training(
    quantize: Literal["int8"] | None, model: Path, data: Path, tmp_path: Path
) -> None:
    alone = run(model, data, tmp_path / "alone", 1, quantize)
    found = [run(model, data, tmp_path / name, 2, quantize) for name in ("one", "two")]
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
