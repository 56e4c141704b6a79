"""The processes of an engine: a fork, and one that ends while requests wait."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from .models_on_disk import save_decider


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model")
    save_decider(path, layers=2)
    return path


FORK = """
import os, sys
from readoff.engine.engine import Engine
from readoff.engine.errors import ClosedError
from readoff.engine.questions import Noul

engine = Engine.from_pretrained(sys.argv[1], dtype="fp32", threads=1)
engine.decide("x", {"q": Noul()})
child = os.fork()
if child == 0:
    told = 1
    try:
        engine.decide("x", {"q": Noul()})
    except ClosedError as error:
        told = 0 if "after the fork" in str(error) else 2
    engine.close()
    os._exit(told)
_, status = os.waitpid(child, 0)
assert os.waitstatus_to_exitcode(status) == 0
assert engine.decide("x", {"q": Noul()}).usage.cached_tokens > 0
print("fine")
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no fork there")
def test_in_a_fork_it_says_so_and_the_parent_goes_on(folder: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", FORK, str(folder)],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert ran.stdout.strip() == "fine", ran.stderr


def test_a_process_that_ends_with_requests_waiting_ends(folder: Path) -> None:
    code = (
        "import sys; from readoff.engine.engine import Engine\n"
        "from readoff.engine.questions import Noul\n"
        "engine = Engine.from_pretrained(sys.argv[1], dtype='fp32', threads=1)\n"
        "kept = [engine.submit(f'{n} ' * 99, {'q': Noul()}) for n in range(50)]\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code, str(folder)],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert (ran.returncode, ran.stdout) == (0, ""), ran.stderr
