"""The folder an export goes to: checked first, filled beside its place, moved there in one step.

No torch in this file.
"""

from __future__ import annotations

import errno
import os
import secrets
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from readoff.engine.errors import ExportError, ReadoffError

_MARKS = ("pack.json", "config.json")
"""One of these is in every export."""
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


def check_target(out: Path, *, force: bool = False, sources: Iterable[Path] = ()) -> Path:
    """The absolute path of `out`, if an export may go there; nothing is written yet.

    `sources` are files and folders that the export reads: replacing them is refused, `force` or
    not. Raises ExportError.
    """
    try:
        return _checked(out, force, sources)
    except OSError as error:  # a name that is too long, a loop of links
        raise _explained(error, out) from error


def _checked(out: Path, force: bool, sources: Iterable[Path]) -> Path:
    target = Path(os.path.abspath(out.expanduser()))
    above = next(folder for folder in (target.parents or [target]) if folder.exists())
    if not above.is_dir():
        raise ExportError(f"{out} can't be made, for {above} is a file. Choose another folder.")
    if not os.access(above, os.W_OK | os.X_OK):
        raise ExportError(f"{out} can't be written: there is no permission to write to {above}.")
    try:
        target.lstat()
    except FileNotFoundError:
        return target
    if not target.is_dir():
        raise ExportError(f"{out} exists and isn't a folder. Choose another name.")
    real = target.resolve()
    for source in sources:
        if source.resolve().is_relative_to(real):
            raise ExportError(
                f"{out} holds what this export is made from ({source}). Choose another folder."
            )
    if not force:
        raise ExportError(f"{out} exists already. Choose another folder, or replace it: --force.")
    if any(kept.is_relative_to(real) for kept in (Path.cwd(), Path.home().resolve())):
        raise ExportError(f"{out} is, or holds, your working or home folder: it isn't replaced.")
    if any(real.iterdir()) and not any((real / name).is_file() for name in _MARKS):
        raise ExportError(
            f"{out} holds files that no export wrote: it isn't replaced. Choose another folder."
        )
    return target


@contextmanager
def new_export(
    out: Path, *, force: bool = False, sources: Iterable[Path] = (), size: int = 0
) -> Iterator[Path]:
    """A folder beside `out` to fill; at the end it becomes `out`, on any error it vanishes.

    An older `out` (with `force`) stays until the new one is complete. `size` is about how many
    bytes will be written. Raises ExportError, also in place of an OSError of the body.
    """
    target = check_target(out, force=force, sources=sources)
    made: list[Path] = []
    draft = target.with_name(f".readoff-export-{secrets.token_hex(4)}")
    published = False
    try:
        for folder in reversed(target.parents):
            if not folder.exists():
                folder.mkdir()
                made.append(folder)
        check_space(target.parent, size)
        draft.mkdir()
        yield draft
        _publish(draft, target)
        published = True
    except ReadoffError:
        raise
    except OSError as error:
        raise _explained(error, out) from error
    finally:
        if not published:
            shutil.rmtree(draft, ignore_errors=True)
            for folder in reversed(made):
                _remove_empty(folder)


def check_space(folder: Path, size: int) -> None:
    """Raise ExportError unless the disk below `folder` has `size` bytes to give."""
    free = shutil.disk_usage(folder).free
    if free < size:
        raise ExportError(
            f"The export takes {_amount(size)}, and the disk of {folder} has {_amount(free)} free. "
            "Make room, or choose a folder on another disk."
        )


def _publish(draft: Path, target: Path) -> None:
    if not os.path.lexists(target):
        draft.rename(target)
        return
    old = draft.with_name(f"{draft.name}.old")
    target.rename(old)
    try:
        draft.rename(target)
    except OSError:
        old.rename(target)
        raise
    if old.is_symlink():
        old.unlink()
    else:
        shutil.rmtree(old, ignore_errors=True)


def _remove_empty(folder: Path) -> None:
    try:
        folder.rmdir()
    except OSError:
        return  # never made, or used by someone else by now


def _explained(error: OSError, out: Path) -> ExportError:
    if error.errno in _FULL:
        return ExportError(
            f"There is no room left for {out} ({error.strerror}). Make room, or choose a folder on "
            "another disk. Nothing was left behind."
        )
    where = f" ({error.filename})" if error.filename else ""
    return ExportError(
        f"{out} can't be written: {error.strerror or error}{where}. Choose a folder that can be "
        "written. Nothing was left behind."
    )


def _amount(size: int) -> str:
    return f"{size / 1e9:.1f} GB" if size >= 1e9 else f"{size / 1e6:.1f} MB"
