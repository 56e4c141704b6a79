"""Who hears about progress."""

from __future__ import annotations

import sys

import pytest

from readoff.engine.progress import showing


def test_a_callable_is_used_as_it_is() -> None:
    heard: list[tuple[str, int, int]] = []
    with showing(lambda *args: heard.append(args)) as report:
        report("x", 1, 2)
    assert heard == [("x", 1, 2)]


def test_silent_off_a_terminal_and_when_told(capfd: pytest.CaptureFixture[str]) -> None:
    for choice in (None, False):
        with showing(choice) as report:
            report("x", 1, 2)
    assert capfd.readouterr() == ("", "")


def test_a_bar_goes_to_standard_error(capfd: pytest.CaptureFixture[str]) -> None:
    with showing(True) as report:
        for done in (0, 500_000, 1_000_000):
            report("model from somewhere", done, 1_000_000)
    out, err = capfd.readouterr()
    assert out == ""
    assert "model from somewhere" in err


def test_a_terminal_gets_the_bar(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with showing(None) as report:
        report("model", 10, 10)
    assert "model" in capfd.readouterr().err
