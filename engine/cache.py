"""The user's cache folder, a lock that processes share, and atomic writes. No torch here."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl


def cache_folder() -> Path:
    """READOFF_CACHE, else XDG_CACHE_HOME/readoff, else ~/.cache/readoff. Not created here."""
    own = os.environ.get("READOFF_CACHE")
    if own:
        return Path(own).expanduser()
    shared = os.environ.get("XDG_CACHE_HOME")
    return (Path(shared).expanduser() if shared else Path.home() / ".cache") / "readoff"


@contextmanager
def locked(
    path: Path, poll: float = 0.2, while_waiting: Callable[[], None] | None = None
) -> Iterator[None]:
    """Hold an exclusive lock between processes; waits as long as another one holds it.

    Looks again every `poll` seconds, calling `while_waiting` before each pause.
    The system drops the lock when a process ends, however it ends, so there are no stale ones.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab") as file:
        while not _try_lock(file.fileno()):
            if while_waiting is not None:
                while_waiting()
            time.sleep(poll)
        yield  # closing the file releases the lock


def _try_lock(descriptor: int) -> bool:
    try:
        if sys.platform == "win32":
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        else:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return False
    return True


@contextmanager
def new_folder(target: Path) -> Iterator[Path]:
    """Fill a temporary folder that becomes `target` in one step, or vanishes on an error.

    If another process made `target` meanwhile, theirs stays.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    try:
        yield draft
        try:
            draft.rename(target)
        except OSError:
            if not target.is_dir():
                raise
    finally:
        shutil.rmtree(draft, ignore_errors=True)
