"""A data set is written whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from readoff.learn.data import write
from readoff.learn.data.errors import DataError
from readoff.learn.data.write import MARK, check_target, write_folder

FILES = {MARK: "{}", "train.jsonl": "new\n"}


def made(folder: Path, text: str = "old\n") -> Path:
    write_folder(folder, {MARK: "{}", "train.jsonl": text}, force=False)
    return folder


def test_files_are_written(tmp_path: Path) -> None:
    folder = made(tmp_path / "deep" / "set")
    assert (folder / "train.jsonl").read_text() == "old\n"
    assert [path.name for path in folder.parent.iterdir()] == ["set"]


def test_a_folder_that_is_there_is_refused(tmp_path: Path) -> None:
    folder = made(tmp_path / "set")
    with pytest.raises(DataError, match="--force"):
        write_folder(folder, FILES, force=False)
    assert (folder / "train.jsonl").read_text() == "old\n"


def test_force_replaces_ours_whole(tmp_path: Path) -> None:
    folder = made(tmp_path / "set")
    (folder / "left over").write_text("x")
    write_folder(folder, FILES, force=True)
    assert {path.name for path in folder.iterdir()} == set(FILES)
    assert (folder / "train.jsonl").read_text() == "new\n"


def test_force_leaves_what_is_not_ours(tmp_path: Path) -> None:
    folder = tmp_path / "photos"
    folder.mkdir()
    (folder / "a.jpg").write_text("x")
    with pytest.raises(DataError, match="no data set of ours"):
        write_folder(folder, FILES, force=True)
    assert (folder / "a.jpg").exists()
    file = tmp_path / "file"
    file.write_text("x")
    with pytest.raises(DataError, match="no data set of ours"):
        check_target(file, force=True)


@pytest.mark.parametrize("force", [True, False])
def test_a_full_disk_leaves_everything_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, force: bool
) -> None:
    folder = tmp_path / "set"
    if force:
        made(folder)

    def full(self: Path, *args: object, **kwargs: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(DataError, match="No space left"):
        write_folder(folder, FILES, force=force)
    monkeypatch.undo()
    assert [path.name for path in tmp_path.iterdir()] == (["set"] if force else [])
    if force:
        assert (folder / "train.jsonl").read_text() == "old\n"


@pytest.mark.parametrize("moved", [False, True])
def test_an_interrupted_exchange_puts_the_old_one_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moved: bool
) -> None:
    """Ctrl-C between the two renames, or as the first one returns; the folder may be a link."""
    made(tmp_path / "real")
    folder = tmp_path / "set"
    folder.symlink_to("real")
    really = os.replace

    def replace(source: Path, target: Path) -> None:
        if Path(source).name == "new":
            raise KeyboardInterrupt
        really(source, target)
        if moved and Path(target).name == "old":
            raise KeyboardInterrupt

    monkeypatch.setattr(write.os, "replace", replace)
    with pytest.raises(KeyboardInterrupt):
        write_folder(folder, FILES, force=True)
    assert folder.is_symlink()
    assert (folder / "train.jsonl").read_text() == "old\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["real", "set"]


def test_what_cannot_be_put_back_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = made(tmp_path / "set")
    really = os.replace

    def replace(source: Path, target: Path) -> None:
        if Path(target) == folder:
            raise OSError(5, "Input/output error")
        really(source, target)

    monkeypatch.setattr(write.os, "replace", replace)
    with pytest.raises(DataError, match=r"can't be put back .* It is in .*old: move") as caught:
        write_folder(folder, FILES, force=True)
    old = Path(str(caught.value).split("It is in ")[1].split(": move")[0])
    assert (old / "train.jsonl").read_text() == "old\n"


def test_a_failed_exchange_puts_the_old_one_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = made(tmp_path / "set")
    really = os.replace

    def replace(source: Path, target: Path) -> None:
        if Path(source).name == "new":
            raise OSError(5, "Input/output error")
        really(source, target)

    monkeypatch.setattr(write.os, "replace", replace)
    with pytest.raises(DataError, match="Input/output error"):
        write_folder(folder, FILES, force=True)
    assert (folder / "train.jsonl").read_text() == "old\n"
    assert [path.name for path in tmp_path.iterdir()] == ["set"]
