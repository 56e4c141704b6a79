"""`Scheduler`: closing it, calls between its passes, and forks."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from readoff.engine.errors import ClosedError
from readoff.engine.scheduler import Scheduler

from .scheduler_rig import SOON, Fake, busy, job, running


def test_closing_ends_those_who_wait_and_lets_the_pass_finish() -> None:
    step = Fake()
    scheduler = Scheduler(step, max_queue=10, max_wait=0.0, name="test")
    with step.held():
        first = busy(scheduler, step)
        waiting = [job(), job()]
        scheduler.submit_many(waiting)
        scheduler.close(wait=False)
        for one in waiting:
            with pytest.raises(ClosedError, match="closed before"):
                one.ticket.result(SOON)
        assert not first.ticket.done()
    assert first.ticket.result(SOON) == first.number
    scheduler.close()
    scheduler.close()
    for attempt in attempts(scheduler):
        with pytest.raises(ClosedError, match="is closed"):
            attempt()
    assert (scheduler.counters.answered, scheduler.counters.failed) == (1, 2)


def test_closing_ends_what_the_last_pass_left_over() -> None:
    step = Fake(at_once=1)
    scheduler = Scheduler(step, max_queue=10, max_wait=0.0, name="test", over=step.over.append)
    with step.held():
        busy(scheduler, step)
        jobs = [job(), job()]
        scheduler.submit_many(jobs)
        step.entered.clear()
        step.go.set()
        assert step.entered.wait(SOON)
    scheduler.close()
    ends = [one.ticket.exception(SOON) for one in jobs]
    assert all(end is None or isinstance(end, ClosedError) for end in ends)
    assert scheduler.counters.requests == scheduler.counters.answered + scheduler.counters.failed


def test_closing_wakes_who_waits_for_room() -> None:
    step = Fake()
    scheduler = Scheduler(step, max_queue=1, max_wait=0.0, name="test")
    caught: list[BaseException] = []

    def many() -> None:
        try:
            scheduler.submit_many([job(), job()])
        except ClosedError as error:
            caught.append(error)

    with step.held():
        busy(scheduler, step)
        thread = threading.Thread(target=many)
        thread.start()
        time.sleep(0.02)
        scheduler.close(wait=False)
        thread.join(SOON)
    scheduler.close()
    assert len(caught) == 1


def test_a_scheduler_that_was_never_used_closes() -> None:
    scheduler = Scheduler(Fake(), max_queue=1, max_wait=0.0, name="test")
    scheduler.close()
    with pytest.raises(ClosedError):
        scheduler.submit(job())
    assert scheduler.counters.requests == 0


def test_calls_run_between_passes_on_the_same_thread() -> None:
    step = Fake()
    with running(step) as scheduler:
        assert scheduler.call(threading.current_thread) is scheduler._thread
        with pytest.raises(ZeroDivisionError):
            scheduler.call(lambda: 1 // 0)
        found: list[Any] = []
        one = job()
        with step.held():
            first = busy(scheduler, step)
            scheduler.submit(one)
            # A callback runs on the scheduler's own thread: that may not wait for itself.
            first.ticket.add_done_callback(lambda _: found.append(scheduler.call(lambda: 7)))
        one.ticket.result(SOON)
        assert found == [7]


def test_a_callback_may_close_it() -> None:
    step = Fake()
    scheduler = Scheduler(step, max_queue=9, max_wait=0.0, name="test")
    with step.held():
        first = busy(scheduler, step)
        first.ticket.add_done_callback(lambda _: scheduler.close())
        waiting = job()
        scheduler.submit(waiting)
    with pytest.raises(ClosedError):
        waiting.ticket.result(SOON)
    scheduler.close()


def test_in_a_fork_it_says_so_without_a_lock(monkeypatch: pytest.MonkeyPatch) -> None:
    scheduler = Scheduler(Fake(), max_queue=9, max_wait=0.0, name="test")
    holder = threading.Thread(target=scheduler._lock.acquire)  # and never released, as in a fork
    holder.start()
    holder.join()
    monkeypatch.setattr("os.getpid", lambda: -1)
    for attempt in attempts(scheduler):
        with pytest.raises(ClosedError, match="parent of this process"):
            attempt()
    scheduler.close()


def attempts(scheduler: Scheduler) -> list[Callable[[], object]]:
    return [
        lambda: scheduler.submit(job()),
        lambda: scheduler.submit_many([job()]),
        lambda: scheduler.call(lambda: None),
    ]
