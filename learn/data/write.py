"""A folder that is there whole or not at all."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

from readoff.learn.data.errors import DataError

MARK = "data.json"
"""The file by which a folder is known to be one of ours, so that --force may replace it."""


def check_target(folder: Path, *, force: bool) -> None:
    """Raise DataError if `folder` is there, and may not be replaced."""
    if not folder.exists() and not folder.is_symlink():
        return
    if not force:
        raise DataError(f"{folder} exists already. Give another --out, or --force to replace it.")
    if not (folder / MARK).is_file() and (not folder.is_dir() or any(folder.iterdir())):
        raise DataError(f"{folder} is no data set of ours ({MARK} is missing): remove it yourself.")


def write_folder(folder: Path, files: Mapping[str, str], *, force: bool) -> None:
    """Write `files` (texts by name) as `folder`, replacing one of ours with `force`.

    Raises DataError. Whatever goes wrong, or interrupts, the folder is then as it was before; where
    it can't be put back, the error names the place where it is.
    """
    check_target(folder, force=force)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    except OSError as error:
        raise DataError(f"{folder.parent} can't be written: {error.strerror}.") from error
    try:
        draft.chmod(0o755)
        new = draft / "new"
        new.mkdir()
        for name, text in files.items():
            (new / name).write_text(text, encoding="utf-8", newline="\n")
        if folder.exists():
            os.replace(folder, draft / "old")
        os.replace(new, folder)
    except OSError as error:
        raise DataError(f"{folder} can't be written: {error.strerror}.") from error
    finally:  # after Ctrl-C between the two too; the draft goes only once nothing is lost with it
        _put_back(draft / "old", folder)
        shutil.rmtree(draft, ignore_errors=True)


def _put_back(old: Path, folder: Path) -> None:
    if os.path.lexists(old) and not os.path.lexists(folder):  # links count, broken ones too
        try:
            os.replace(old, folder)
        except OSError as error:
            raise DataError(
                f"{folder} can't be put back ({error.strerror}). It is in {old}: move it yourself."
            ) from error
