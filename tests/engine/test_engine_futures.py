"""Futures of an engine: what their callbacks may do, and how long an engine lives for them."""

from __future__ import annotations

import gc
import time
from concurrent.futures import Future
from pathlib import Path

import pytest

from readoff.engine.answers import Decision
from readoff.engine.engine import Engine
from readoff.engine.errors import ReadoffError
from tests.engine.models_on_disk import REFUND, STATE, save_decider

ONE = {"refund": REFUND}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model")
    save_decider(path, layers=2)
    return path


def test_a_callback_may_submit_but_not_wait(folder: Path) -> None:
    with Engine.from_pretrained(folder, dtype="fp32") as engine:
        raised: list[BaseException] = []
        again: list[Future[Decision]] = []

        def called(ticket: Future[Decision]) -> None:
            for wait in (lambda: engine.decide("x", ONE), lambda: engine.prefill("x")):
                try:
                    wait()
                except ReadoffError as error:
                    raised.append(error)
            again.append(engine.submit("y", ONE))

        engine.submit(STATE, ONE).add_done_callback(called)
        while not again:
            time.sleep(0.001)
        assert "refund" in again[0].result(timeout=30)
        assert ["own thread" in str(error) for error in raised] == [True, True]


def test_an_engine_that_nobody_holds_answers_first(folder: Path) -> None:
    ticket = Engine.from_pretrained(folder, dtype="fp32").submit(STATE, ONE)
    gc.collect()
    assert "refund" in ticket.result(timeout=30)
