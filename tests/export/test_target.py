"""The folder of an export: one step from nothing to complete, and nothing left on failure."""

from __future__ import annotations

import errno
import os
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from readoff.engine.errors import CheckpointError, ExportError
from readoff.export.target import check_target, new_export


def fill(draft: Path) -> None:
    (draft / "weights").write_text("new")


def fail(out: Path, error: BaseException | type[BaseException], *, force: bool = False) -> None:
    """An export that comes half-way."""
    with new_export(out, force=force) as draft:
        fill(draft)
        raise error


def test_the_folder_appears_complete_and_alone(tmp_path: Path) -> None:
    out = tmp_path / "a" / "b" / "out"
    with new_export(out) as draft:
        assert draft.parent == out.parent  # one disk, so that a rename moves it
        assert not out.exists()
        fill(draft)
    assert [path.name for path in out.iterdir()] == ["weights"]
    assert os.listdir(out.parent) == ["out"]
    plain = tmp_path / "plain"
    plain.mkdir()
    assert out.stat().st_mode == plain.stat().st_mode


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt, CheckpointError])
def test_an_error_leaves_nothing(tmp_path: Path, error: type[BaseException]) -> None:
    with pytest.raises(error):
        fail(tmp_path / "a" / "b" / "out", error)
    assert os.listdir(tmp_path) == []


def test_an_existing_folder_is_refused_or_replaced_at_the_end(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "config.json").write_text("old")
    with pytest.raises(ExportError, match=r"exists already.*--force"), new_export(out):
        pass
    with pytest.raises(RuntimeError):
        fail(out, RuntimeError, force=True)
    assert os.listdir(out) == ["config.json"]
    with new_export(out, force=True) as draft:
        fill(draft)
        assert os.listdir(out) == ["config.json"]
    assert os.listdir(out) == ["weights"]
    assert os.listdir(tmp_path) == ["out"]


def test_only_exports_and_empty_folders_are_replaced(tmp_path: Path) -> None:
    out = tmp_path / "out"
    (out / "photos").mkdir(parents=True)
    with pytest.raises(ExportError, match="no export wrote"):
        fail(out, RuntimeError, force=True)
    (out / "photos").rmdir()
    with new_export(out, force=True) as draft:
        fill(draft)
    assert os.listdir(out) == ["weights"]


def test_a_link_is_replaced_and_what_it_leads_to_stays(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.mkdir()
    (tmp_path / "out").symlink_to(kept)
    with new_export(tmp_path / "out", force=True) as draft:
        fill(draft)
    assert not (tmp_path / "out").is_symlink()
    assert sorted(os.listdir(tmp_path)) == ["kept", "out"]


def test_a_failed_replacement_puts_the_old_folder_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "config.json").write_text("old")
    rename = Path.rename

    def fail_for_drafts(self: Path, target: Path) -> Path:
        if target == out and (self / "weights").exists():
            raise OSError(errno.EIO, "Input/output error", str(self))
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", fail_for_drafts)
    with (
        pytest.raises(ExportError, match="Input/output error"),
        new_export(out, force=True) as draft,
    ):
        fill(draft)
    assert os.listdir(tmp_path) == ["out"]
    assert os.listdir(out) == ["config.json"]


def test_what_is_read_is_never_replaced(tmp_path: Path) -> None:
    base = tmp_path / "models" / "base"
    base.mkdir(parents=True)
    for out in (base, tmp_path / "models", tmp_path / "models" / ".." / "models"):
        with pytest.raises(ExportError, match="made from"):
            check_target(out, force=True, sources=[base])
    link = tmp_path / "link"
    link.symlink_to(base)
    with pytest.raises(ExportError, match="made from"):
        check_target(link, force=True, sources=[base])
    assert check_target(base / "merged", sources=[base]) == base / "merged"


def test_the_working_folder_is_never_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    for out in (Path("."), Path(".."), Path("/")):
        with pytest.raises(ExportError, match=r"working or home folder|can't be written"):
            check_target(out, force=True)


def test_files_in_the_way(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(ExportError, match="isn't a folder"):
        check_target(file, force=True)
    with pytest.raises(ExportError, match="is a file"):
        check_target(file / "out")
    with pytest.raises(ExportError, match="too long"):
        check_target(tmp_path / ("x" * 300))


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="/proc is Linux's")
def test_a_place_where_nobody_may_write() -> None:
    with (
        pytest.raises(ExportError, match=r"can't be written.*Nothing was left"),
        new_export(Path("/proc/readoff-export/out")),
    ):
        pass


def test_no_permission(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: path != tmp_path)
    with pytest.raises(ExportError, match="no permission"):
        check_target(tmp_path / "a" / "out")


def test_too_little_space_is_known_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=2_000_000_000))
    with (
        pytest.raises(ExportError, match=r"takes 3\.5 GB.*has 2\.0 GB free"),
        new_export(tmp_path / "a" / "out", size=3_500_000_000),
    ):
        raise AssertionError("the body must not run")
    assert os.listdir(tmp_path) == []
    with new_export(tmp_path / "a" / "out", size=1_999_999_999) as draft:
        fill(draft)


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EACCES])
def test_the_disk_fills_up_on_the_way(tmp_path: Path, code: int) -> None:
    message = "can't be written" if code == errno.EACCES else "no room left"
    with pytest.raises(ExportError, match=message):
        fail(tmp_path / "out", OSError(code, os.strerror(code)))
    assert os.listdir(tmp_path) == []
