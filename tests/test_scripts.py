"""The scripts that people and CI call, as far as they can be checked without a network."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.imports import ROOT

SCRIPTS = sorted(path for path in (ROOT / "scripts").iterdir() if path.is_file())


def bash(script: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-c", script],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=60,
    )


def program(path: Path, text: str) -> None:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


@pytest.fixture
def only(tmp_path: Path) -> Path:
    """A PATH that holds the tools the scripts use, and no Python at all."""
    for tool in ("bash", "dirname", "cat", "env"):
        (tmp_path / tool).symlink_to(f"/usr/bin/{tool}")
    return tmp_path


FIND = "source scripts/_common.sh; find_python"


@pytest.mark.parametrize("path", [*SCRIPTS, ROOT / ".ci" / "run"], ids=lambda path: path.name)
def test_bash_accepts_the_script(path: Path) -> None:
    done = bash(f"bash -n {path}")
    assert (done.returncode, done.stderr) == (0, "")
    if path.name != "_common.sh":
        assert os.access(path, os.X_OK)


def test_a_broken_shim_is_passed_over(only: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A version manager's `python3` can be on PATH and fail when it is run."""
    monkeypatch.delenv("PYTHON", raising=False)
    program(only / "python3", "echo 'command not found' >&2; exit 127")
    program(only / "python3.12", f'exec {sys.executable} "$@"')
    done = bash(FIND, PATH=str(only))
    assert done.stdout.strip() == sys.executable


def test_no_python_is_one_clear_error(only: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTHON", raising=False)
    done = bash(FIND, PATH=str(only))
    assert done.returncode == 1
    assert "no usable Python 3.11+ found" in done.stderr
    assert "make test PYTHON=" in done.stderr


def test_a_named_python_is_used_or_refused(only: Path) -> None:
    program(only / "my python", f'exec {sys.executable} "$@"')
    assert bash(FIND, PYTHON=str(only / "my python")).stdout.strip() == sys.executable
    done = bash(FIND, PYTHON="/nowhere/python3")
    assert done.returncode == 1
    assert "PYTHON=/nowhere/python3 is no usable Python" in done.stderr


def test_a_failing_step_shows_the_end_of_its_log(tmp_path: Path) -> None:
    log = tmp_path / "log"
    done = bash(
        f"source scripts/_common.sh; run_step trying '{log}' sh -c 'echo no such wheel; exit 3' "
        "|| die 'could not install' 'try another'"
    )
    assert done.returncode == 1
    assert "==> trying" in done.stdout
    assert "no such wheel" in done.stderr
    assert done.stderr.endswith("error: could not install\n       try another\n")


def test_make_help_lists_every_target() -> None:
    done = bash("make help")
    for target in ("demo", "test", "test-all", "lint", "clean"):
        assert f"\n  {target} " in done.stdout
