"""Progress of a download in a log."""

from __future__ import annotations

import pytest

from readoff.commands import download


def told(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return capsys.readouterr().err.splitlines()


def test_one_line_a_tenth(capsys: pytest.CaptureFixture[str]) -> None:
    report = download.LineProgress(pause=0)
    for done in range(0, 1001, 10):
        report("model", done * 10**6, 1000 * 10**6)
    lines = told(capsys)
    assert len(lines) == 11
    assert lines[1] == "  model: 100 of 1000 MB"
    assert lines[-1] == "  model: 1000 of 1000 MB"


def test_lines_keep_their_distance_but_the_last_one_comes(
    capsys: pytest.CaptureFixture[str],
) -> None:
    report = download.LineProgress(pause=3600)
    for done in range(0, 101, 10):
        report("model", done * 10**6, 100 * 10**6)
    assert told(capsys) == ["  model: 100 of 100 MB"]


def test_the_cache_is_used_without_a_word(
    monkeypatch: pytest.MonkeyPatch, tmp_path: object, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is announced and nothing is fetched where the file lies already."""
    from pathlib import Path

    there = Path(str(tmp_path)) / "model.gguf"
    there.write_bytes(b"weights")
    monkeypatch.setattr(download.fetch, "demo_path", lambda: there)
    monkeypatch.setattr(download.fetch, "fetch_demo", lambda progress: there)
    assert download.demo_model() == there
    assert told(capsys) == []
