"""The one thread that computes."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from contextvars import ContextVar
from pathlib import Path

import pytest

from readoff.engine.compute import on_compute_thread
from readoff.engine.engine import Engine
from readoff.kernels.linear import linear
from tests.engine.models_on_disk import REFUND, STATE, save_decider

HERE: ContextVar[str] = ContextVar("HERE", default="unset")


def test_everybody_s_work_runs_on_one_thread() -> None:
    found: list[threading.Thread] = []

    def ask() -> None:
        found.append(on_compute_thread(threading.current_thread))

    callers = [threading.Thread(target=ask) for _ in range(5)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    ask()
    assert len(set(found)) == 1
    assert found[0] is not threading.current_thread()
    assert found[0].daemon


def test_results_errors_nesting_and_context() -> None:
    token = HERE.set("here")
    try:
        assert on_compute_thread(lambda: on_compute_thread(HERE.get)) == "here"
    finally:
        HERE.reset(token)
    with pytest.raises(KeyError, match="gone"):
        on_compute_thread(lambda: {}["gone"])
    assert on_compute_thread(lambda: 3) == 3, "an error ended the thread"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork there")
def test_a_fork_s_child_has_its_own() -> None:
    on_compute_thread(lambda: None)
    child = os.fork()
    if child == 0:
        os._exit(0 if on_compute_thread(lambda: 7) == 7 else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_loading_and_passes_of_all_engines_run_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save_decider(tmp_path, layers=2)
    seen: set[threading.Thread] = set()
    for implementation in linear.implementations.values():
        original = implementation.function

        def noting(*args: object, original: object = original) -> object:
            seen.add(threading.current_thread())
            return original(*args)  # type: ignore[operator]

        monkeypatch.setitem(implementation.__dict__, "function", noting)
    one = Engine.from_pretrained(tmp_path, dtype="fp32")
    with one, one.with_serving(one.serving) as other:
        one.decide(STATE, {"q": REFUND})
        other.decide(STATE, {"q": REFUND})
    assert seen == {on_compute_thread(threading.current_thread)}


TEAMS = """
import os, sys
import numpy, torch
import readoff.engine.engine
def count():
    return len(os.listdir("/proc/self/task"))
before = count()
engine = readoff.engine.engine.Engine.from_pretrained(sys.argv[1], dtype="fp32")
engine.decide("A state. " * 40, {"q": readoff.engine.questions.Noul()})
print(count() - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="counts threads in /proc")
def test_a_process_has_one_team_of_openmp_threads(demo_checkpoint: Path) -> None:
    """The engine's thread, the computing one, and its helper: a second team would slow both."""
    done = subprocess.run(
        [sys.executable, "-c", TEAMS, str(demo_checkpoint)],
        env={**os.environ, "OMP_NUM_THREADS": "2"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) == 3
