"""The cache folder, the lock between processes, and folders that appear in one step."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from readoff.engine.cache import cache_folder, locked, new_folder


def test_cache_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("READOFF_CACHE", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert cache_folder() == tmp_path / ".cache" / "readoff"
    monkeypatch.setenv("XDG_CACHE_HOME", "/var/shared")
    assert cache_folder() == Path("/var/shared/readoff")
    monkeypatch.setenv("READOFF_CACHE", "~/mine")
    assert cache_folder() == tmp_path / "mine"


HOLDER = """
import sys, time
from pathlib import Path
from readoff.engine.cache import locked
with locked(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


def test_lock_waits_for_another_process_and_outlives_it(tmp_path: Path) -> None:
    lock = tmp_path / "deep" / "lock"
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(lock)], stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        try:
            killed = 0.0
            started = time.monotonic()

            def stop_after_a_while() -> None:
                nonlocal killed
                if not killed and time.monotonic() - started > 0.3:
                    killed = time.monotonic()
                    holder.kill()  # as rudely as can be: the lock must not stay behind

            with locked(lock, poll=0.02, while_waiting=stop_after_a_while):
                assert killed
        finally:
            holder.kill()
    with locked(lock, poll=0.02, while_waiting=lambda: pytest.fail("the lock stayed behind")):
        pass


def test_new_folder_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    target = tmp_path / "a" / "b"

    def break_off() -> None:
        with new_folder(target) as draft:
            (draft / "half").write_text("x")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        break_off()
    assert list((tmp_path / "a").iterdir()) == []
    with new_folder(target) as draft:
        (draft / "file").write_text("first")
        assert not target.exists()
    with new_folder(target) as draft:
        (draft / "file").write_text("second")
    assert (target / "file").read_text() == "first"
    assert list((tmp_path / "a").iterdir()) == [target]
