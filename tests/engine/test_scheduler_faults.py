"""`Scheduler` where something around it fails: no thread to be had, callbacks that end threads."""

from __future__ import annotations

import sys
import threading
from typing import Any

import pytest

from readoff.engine.errors import ClosedError, OverloadedError, StepError

from .scheduler_rig import SOON, Fake, busy, job, running


def test_a_thread_that_cannot_be_started_leaves_nobody_waiting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    step = Fake()
    with running(step) as scheduler:

        def refused(thread: threading.Thread) -> None:
            raise RuntimeError("can't start new thread")

        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", refused)
            for attempt in (
                lambda: scheduler.submit(job()),
                lambda: scheduler.submit_many([job()]),
                lambda: scheduler.call(int),
            ):
                with pytest.raises(StepError, match="can't be started"):
                    attempt()
        assert scheduler.depth == scheduler.counters.requests == 0
        after = job()
        scheduler.submit(after)
        assert after.ticket.result(SOON) == after.number
    assert step.seen == [[after]]


def leave(ticket: Any) -> None:
    sys.exit("of a callback")


def test_a_callback_that_ends_its_thread_ends_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[Any] = []
    monkeypatch.setattr(threading, "excepthook", told.append)
    step = Fake()
    with running(step) as scheduler:
        with step.held():
            jobs = [busy(scheduler, step), job(), job()]
            for one in jobs[:2]:
                one.ticket.add_done_callback(leave)
            scheduler.submit(*jobs[1:])
        for one in jobs:
            assert one.ticket.result(SOON) == one.number
    assert [args.exc_type for args in told] == [SystemExit] * 2


def test_closing_ends_all_whatever_a_callback_raises() -> None:
    step = Fake()
    with running(step) as scheduler, step.held():
        busy(scheduler, step)
        jobs = [job(), job(), job()]
        scheduler.submit(*jobs)
        jobs[0].ticket.add_done_callback(leave)
        with pytest.raises(SystemExit, match="of a callback"):
            scheduler.close(wait=False)
        for one in jobs:
            with pytest.raises(ClosedError):
                one.ticket.result(0)


def test_all_of_a_request_is_queued_or_none() -> None:
    step = Fake()
    with running(step, max_queue=3) as scheduler:
        with step.held():
            busy(scheduler, step)  # it stays in the queue until its pass is over
            waiting = job()
            scheduler.submit(waiting)
            with pytest.raises(OverloadedError, match="2 requests are waiting"):
                scheduler.submit(job(), job())
            assert (scheduler.depth, scheduler.counters.rejected) == (2, 2)
        waiting.ticket.result(SOON)
        many = [job() for _ in range(5)]  # more than ever fit: into an empty queue
        scheduler.call(int)
        scheduler.submit(*many)
        for one in many:
            assert one.ticket.result(SOON) == one.number
