"""`Scheduler`: the queue and its thread, with passes made up here."""

from __future__ import annotations

import asyncio
import threading
import time
from concurrent.futures import CancelledError
from typing import Any

import pytest

from readoff.engine.errors import DeadlineError, OverloadedError, StepError
from readoff.engine.job import Group
from readoff.engine.scheduler import Scheduler

from .scheduler_rig import SOON, Fake, busy, job, running


def test_what_has_arrived_goes_at_once() -> None:
    step = Fake()
    with running(step) as scheduler:
        with step.held():
            first = busy(scheduler, step)
            others = [job() for _ in range(5)]
            for one in others:
                scheduler.submit(one)
        for one in (first, *others):
            assert one.ticket.result(SOON) == one.number
    assert step.seen == [[first], others]
    assert step.over == [first, *others]
    assert scheduler.counters.answered == 6


def test_higher_priorities_go_first_then_the_oldest() -> None:
    step = Fake(at_once=1)
    with running(step) as scheduler:
        with step.held():
            busy(scheduler, step)
            low, normal, high, later = job(-1), job(), job(5), job()
            for one in (low, normal, high, later):
                scheduler.submit(one)
        low.ticket.result(SOON)
    assert [seen[0] for seen in step.seen[1:]] == [high, normal, later, low]


def test_jobs_of_one_group_share_a_pass_and_others_do_not() -> None:
    step = Fake()
    mass = Group(legal_mass=True)
    with running(step) as scheduler:
        with step.held():
            busy(scheduler, step)
            jobs = [job(group=g) for g in (mass, Group(), mass)]
            for one in jobs:
                scheduler.submit(one)
        for one in jobs:
            one.ticket.result(SOON)
    assert step.seen[1:] == [[jobs[0], jobs[2]], [jobs[1]]]


def test_jobs_that_are_not_over_stay_in_the_queue() -> None:
    step = Fake(at_once=1)
    with running(step) as scheduler:
        with step.held():
            busy(scheduler, step)
            jobs = [job() for _ in range(3)]
            scheduler.submit_many(jobs)
        assert [one.ticket.result(SOON) for one in jobs] == [one.number for one in jobs]
    assert [len(seen) for seen in step.seen] == [1, 3, 2, 1]


def test_a_full_queue_is_an_error_with_its_depth() -> None:
    step = Fake()
    with running(step, max_queue=3) as scheduler:
        with step.held():
            jobs = [busy(scheduler, step), job(), job()]
            for one in jobs[1:]:
                scheduler.submit(one)
            with pytest.raises(OverloadedError, match="3 requests are waiting") as caught:
                scheduler.submit(job())
            assert caught.value.depth == 3
        for one in jobs:
            one.ticket.result(SOON)
        after = job()
        scheduler.submit(after)
        assert after.ticket.result(SOON) == after.number
    assert scheduler.counters.rejected == 1


def test_those_whom_nobody_waits_for_make_room() -> None:
    step = Fake()
    with running(step, max_queue=3) as scheduler:
        with step.held():
            busy(scheduler, step)
            cancelled, late, after = job(), job(deadline=0.001), job()
            scheduler.submit_many([cancelled, late])
            cancelled.ticket.cancel()
            time.sleep(0.005)
            scheduler.submit(after)
        assert after.ticket.result(SOON) == after.number
        assert isinstance(late.ticket.exception(SOON), DeadlineError)
    assert {cancelled, late} <= set(step.over)
    assert (scheduler.counters.cancelled, scheduler.counters.expired) == (1, 1)


def test_many_wait_for_room() -> None:
    step = Fake(at_once=2)
    with running(step, max_queue=3) as scheduler:
        jobs = [job() for _ in range(20)]
        scheduler.submit_many(jobs)
        assert [one.ticket.result(SOON) for one in jobs] == [one.number for one in jobs]
    assert max(len(seen) for seen in step.seen) <= 3


def test_many_do_not_wait_for_room_beyond_their_deadline() -> None:
    step = Fake()
    with running(step, max_queue=1) as scheduler, step.held():
        busy(scheduler, step)
        with pytest.raises(DeadlineError):
            scheduler.submit_many([job(deadline=0.02)])
    assert scheduler.counters.requests == 1


@pytest.mark.parametrize("waiting", [True, False])
def test_a_missed_deadline_takes_a_request_out(waiting: bool) -> None:
    """Before it came to the queue, and while it waits there."""
    step = Fake()
    with running(step) as scheduler:
        with step.held():
            busy(scheduler, step)
            late = job(deadline=0.01 if waiting else -1.0)
            scheduler.submit(late)
            time.sleep(0.03)
        with pytest.raises(DeadlineError, match="deadline"):
            late.ticket.result(SOON)
    assert all(late not in seen for seen in step.seen)
    assert step.over[-1] is late
    assert scheduler.counters.expired == 1


def test_a_cancelled_request_never_runs() -> None:
    step = Fake()
    with running(step) as scheduler:
        with step.held():
            busy(scheduler, step)
            gone, stays = job(), job()
            scheduler.submit_many([gone, stays])
            assert gone.ticket.cancel()
        assert stays.ticket.result(SOON) == stays.number
        with pytest.raises(CancelledError):
            gone.ticket.result(SOON)
    assert all(gone not in seen for seen in step.seen)
    assert gone in step.over
    assert scheduler.counters.cancelled == 1


def test_a_request_cancelled_in_its_pass_is_dropped() -> None:
    step = Fake()
    with running(step) as scheduler:
        with step.held():
            first = busy(scheduler, step)
            assert first.ticket.cancel()
        after = job()
        scheduler.submit(after)
        after.ticket.result(SOON)
    assert (scheduler.counters.cancelled, scheduler.counters.answered) == (1, 1)


@pytest.mark.parametrize("error", [ValueError("x"), KeyboardInterrupt(), SystemExit()])
def test_a_step_that_raises_ends_its_jobs_and_the_thread_goes_on(error: BaseException) -> None:
    step = Fake()
    with running(step) as scheduler:
        step.error = error
        first, after = job(), job()
        scheduler.submit(first)
        with pytest.raises(StepError, match=type(error).__name__) as caught:
            first.ticket.result(SOON)
        assert caught.value.__cause__ is error
        scheduler.submit(after)
        assert after.ticket.result(SOON) == after.number
    assert (scheduler.counters.failed, scheduler.counters.answered) == (1, 1)


def test_each_request_of_a_failed_step_has_an_exception_of_its_own() -> None:
    step = Fake()
    with running(step) as scheduler:
        with step.held():
            first = busy(scheduler, step)
            jobs = [job(), job()]
            scheduler.submit_many(jobs)
            first.ticket.add_done_callback(lambda _: setattr(step, "error", ValueError("x")))
        errors = [one.ticket.exception(SOON) for one in jobs]
    assert step.seen[1] == jobs
    assert all(isinstance(error, StepError) for error in errors)
    assert errors[0] is not errors[1]


def test_waits_for_company_as_long_as_it_may() -> None:
    step = Fake()
    with running(step, max_wait=0.15) as scheduler:
        first, second = job(), job()
        start = time.perf_counter()
        scheduler.submit(first)
        time.sleep(0.02)
        scheduler.submit(second)
        first.ticket.result(SOON)
        second.ticket.result(SOON)
        assert time.perf_counter() - start >= 0.15
    assert step.seen == [[first, second]]


def test_a_full_queue_or_a_near_deadline_ends_the_wait() -> None:
    step = Fake()
    with running(step, max_queue=2, max_wait=SOON) as scheduler:
        jobs = [job(), job()]
        scheduler.submit_many(jobs)
        for one in jobs:
            one.ticket.result(SOON / 2)
        hurried = job(deadline=SOON / 2)
        scheduler.submit(hurried)
        assert hurried.ticket.result(SOON / 2) == hurried.number


def test_the_oldest_request_ends_the_wait_whoever_goes_first() -> None:
    step = Fake(at_once=1)
    with running(step, max_wait=0.05) as scheduler:
        low = job()
        scheduler.submit(low)
        for _ in range(8):
            time.sleep(0.02)
            if low.ticket.done():
                break
            scheduler.submit(job(priority=1))
        start = time.perf_counter()
        low.ticket.result(SOON)
        assert time.perf_counter() - start < 0.5


def test_futures_for_asyncio() -> None:
    step = Fake()

    async def ask(scheduler: Scheduler) -> list[Any]:
        jobs = [job() for _ in range(10)]
        scheduler.submit_many(jobs)
        found = await asyncio.gather(*(asyncio.wrap_future(one.ticket) for one in jobs))
        assert found == [one.number for one in jobs]
        return found

    with running(step) as scheduler:
        assert len(asyncio.run(ask(scheduler))) == 10
    assert scheduler.counters.answered == 10


def test_every_request_ends_exactly_once_whoever_pulls() -> None:
    """Cancellations race with ends: the counts still add up (checked by `running`)."""
    step = Fake(at_once=3)
    with running(step, max_queue=1 << 20) as scheduler:

        def ask(seed: int) -> None:
            for n in range(100):
                one = job(deadline=0.0005 if n % 7 == 0 else None)
                scheduler.submit(one)
                if (n + seed) % 3 == 0:
                    one.ticket.cancel()

        threads = [threading.Thread(target=ask, args=(seed,)) for seed in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        last = job(priority=-1)
        scheduler.submit(last)
        last.ticket.result(60)
    assert scheduler.counters.requests == 801
