"""What can be told of the machine without torch."""

from __future__ import annotations

from pathlib import Path

import pytest

from readoff.engine.errors import ReadoffError
from readoff.engine.host import check_threads, free_host_memory


@pytest.mark.parametrize("count", [0, -1, 1.0, True, "2"])
def test_numbers_of_threads_that_are_none(count: object) -> None:
    with pytest.raises(ReadoffError, match="threads must be a positive whole number"):
        check_threads(count)  # type: ignore[arg-type]


def test_more_threads_than_can_be_started() -> None:
    with pytest.raises(ReadoffError, match="give at most"):
        check_threads(10**6)


def test_numbers_of_threads() -> None:
    for count in (None, 1, 64):
        check_threads(count)


def test_free_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    assert 1 << 20 < free_host_memory() < 1 << 50
    told = "MemTotal:  9 kB\nMemAvailable:     2048 kB\n"
    monkeypatch.setattr(Path, "read_text", lambda *_, **__: told)
    assert free_host_memory() == 2 << 20
    monkeypatch.setattr(Path, "read_text", lambda *_, **__: "MemTotal: 9 kB\n")
    assert free_host_memory() == 4 << 30

    def fail(*_: object, **__: object) -> str:
        raise FileNotFoundError

    monkeypatch.setattr(Path, "read_text", fail)
    assert free_host_memory() == 4 << 30
