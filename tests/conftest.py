"""Fixtures of the whole suite: poisoned uninitialised memory, and the demonstration model."""

from __future__ import annotations

import functools
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils import _device

# Triton looks at this when a kernel is defined. Nothing chooses Triton for CPU tensors by itself:
# tests ask for it by name; the compiler is tested in processes of its own.
os.environ["TRITON_INTERPRET"] = "1"

WEIGHTS_PROBLEM = pytest.StashKey[str]()
BROWSER_PROBLEM = pytest.StashKey[str]()


def poisoned(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function`, a maker of uninitialised memory, with floats that start as NaN."""

    @functools.wraps(function)
    def make(*args: Any, **kwargs: Any) -> Any:
        made = function(*args, **kwargs)
        if isinstance(made, np.ndarray):
            if made.dtype.kind in "fc":
                made.fill(np.nan)
        elif made.dtype.is_floating_point and made.device.type != "meta":
            with torch.no_grad():
                made.fill_(torch.nan)
        return made

    return make


@pytest.fixture(autouse=True, scope="session")
def _uninitialised_memory_is_nan() -> Iterator[None]:
    """Reading an output before writing it gives NaN at once, not yesterday's plausible numbers."""
    _device._device_constructors()  # cached: it must hold the true functions, not the patched ones
    with pytest.MonkeyPatch.context() as patch:
        for name in ("empty", "empty_like", "empty_strided"):
            patch.setattr(torch, name, poisoned(getattr(torch, name)))
        patch.setattr(torch.Tensor, "new_empty", poisoned(torch.Tensor.new_empty))
        for name in ("empty", "empty_like"):
            patch.setattr(np, name, poisoned(getattr(np, name)))
        yield


@pytest.fixture(scope="session")
def demo_checkpoint(request: pytest.FixtureRequest) -> Path:
    """The demonstration model's GGUF file. Tests never download it: `make test` does, before."""
    from readoff.engine.errors import DownloadError
    from readoff.engine.fetch import fetch_demo

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("READOFF_OFFLINE", "1")
        try:
            return fetch_demo(False)
        except DownloadError:
            problem = "the demonstration model isn't in the cache; `readoff fetch` puts it there"
    request.config.stash[WEIGHTS_PROBLEM] = problem
    pytest.skip(problem)


@pytest.fixture
def chromium(request: pytest.FixtureRequest) -> str:
    """The path of a headless browser."""
    for name in ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable"):
        found = shutil.which(name)
        if found is not None:
            return found
    problem = "there is no Chromium here (on Debian: apt-get install chromium)"
    request.config.stash[BROWSER_PROBLEM] = problem
    pytest.skip(problem)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Every test that asks for the real weights carries the marker, whoever forgot it."""
    for item in items:
        if "demo_checkpoint" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.weights)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """A box just above pytest's closing line for what could not be tested here."""
    stash = terminalreporter.config.stash
    problem = stash.get(WEIGHTS_PROBLEM, None)
    if problem is not None:
        skipped = terminalreporter.stats.get("skipped", [])
        count = sum("weights" in report.keywords for report in skipped)
        lines = [
            "THE REAL MODEL WAS NOT TESTED",
            f"{count} test{'s were' if count != 1 else ' was'} skipped: {problem}.",
            "Everything else ran on small random models.",
        ]
        _box(terminalreporter, lines)
    problem = stash.get(BROWSER_PROBLEM, None)
    if problem is not None:
        _box(terminalreporter, ["THE REPORT WAS NOT OPENED IN A BROWSER", f"{problem}."])


def _box(terminalreporter: pytest.TerminalReporter, lines: list[str]) -> None:
    width = max(map(len, lines)) + 4
    terminalreporter.write_line("")
    for line in ("", *lines, ""):
        text = f"!! {line.ljust(width - 3)}!!" if line else "!" * (width + 2)
        terminalreporter.write_line(text, red=True, bold=True)
