"""Writing a run's files: whole or not at all, and by one run at a time."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from readoff.learn.errors import TrainingError

LOCK = ".training.lock"
_DRAFT = re.compile(r"\.(.+)\.\d+")


def write_bytes(path: Path, content: bytes) -> None:
    """Write `content` beside `path`, then take its place in one step: whoever reads `path` finds
    the old content or the new one, also after a full disk or a power cut.

    Raises TrainingError; the old content is then still there.
    """
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with draft.open("wb") as out:
            out.write(content)
            out.flush()
            os.fsync(out.fileno())
        os.replace(draft, path)
    except OSError as error:
        raise TrainingError(
            f"{path} can't be written: {error.strerror}. What was there before is untouched; make "
            "room or choose another folder, and go on with --resume."
        ) from error
    finally:
        with suppress(OSError):
            draft.unlink()


def write_json(path: Path, document: Mapping[str, Any]) -> None:
    """Write a readable JSON document; never NaN. Raises TrainingError as `write_bytes` does."""
    text = json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False)
    write_bytes(path, f"{text}\n".encode())


def is_draft(file: Path, names: tuple[str, ...]) -> bool:
    """Whether it is what a killed run leaves of writing one of `names`."""
    match = _DRAFT.fullmatch(file.name)
    return match is not None and match[1] in names


@contextmanager
def claimed(folder: Path) -> Iterator[None]:
    """Make `folder` and keep other runs out of it. What was made for it and is empty in the end
    is removed again. The system drops the lock when a process ends, however it ends.

    Raises TrainingError where another run has it, and where it can't be written to.
    """
    made: list[Path] = []
    try:
        with _explained(folder):
            made += [place for place in (folder, *folder.parents) if not place.exists()]
            folder.mkdir(parents=True, exist_ok=True)
            file = (folder / LOCK).open("ab", buffering=0)
        with file:
            _lock(file.fileno(), folder)
            try:
                with _explained(folder):
                    file.write(b"0")  # a full disk is noticed now
                yield
            finally:
                with suppress(OSError):  # before the lock is dropped: nobody waits for this file
                    (folder / LOCK).unlink()
    finally:
        for place in made:
            with suppress(OSError):
                place.rmdir()


def _lock(descriptor: int, folder: Path) -> None:
    """Where the system and the disk have such locks."""
    try:
        import fcntl
    except ImportError:
        return
    free = True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        free = os.path.samestat(os.fstat(descriptor), os.stat(folder / LOCK))
    except (BlockingIOError, FileNotFoundError):
        free = False
    except OSError:
        pass  # some network disks have none
    if not free:
        raise TrainingError(
            f"Another training is using {folder}. Wait until it is done, or name another folder "
            "with --out."
        )


@contextmanager
def _explained(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise TrainingError(
            f"{folder} can't be written to ({error.strerror}). Name another folder with --out."
        ) from error
