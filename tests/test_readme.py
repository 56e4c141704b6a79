"""The README's session runs as written and prints what the README says."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

import pytest

from tests.imports import ROOT

README = (ROOT / "README.md").read_text()
NUMBER = re.compile(r"\d+\.\d+")


def block(language: str) -> str:
    found = re.search(rf"```{language}\n(.*?)```", README, flags=re.DOTALL)
    assert found, f"the README has no {language} block"
    return found.group(1)


def test_the_session_prints_what_it_says(demo_checkpoint: Path) -> None:
    """Word for word; the probabilities to within 0.03, since other processors round otherwise."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(block("python"), "README.md", "exec"), {})
    expected = block("text")
    assert NUMBER.sub("#", printed.getvalue()) == NUMBER.sub("#", expected)
    found = [float(x) for x in NUMBER.findall(printed.getvalue())]
    told = [float(x) for x in NUMBER.findall(expected)]
    assert len(told) >= 5
    assert found == pytest.approx(told, abs=0.03)
