"""The files of a batch: lines in, and lines out that a later run can go on from."""

from __future__ import annotations

import codecs
import hashlib
import json
import os
import stat
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from readoff.commands.errors import BatchError

MAX_LINE = 64 << 20
"""Bytes of a request; a longer line is an error, and no memory is spent on it."""

_PIECE = 1 << 20


@dataclass(frozen=True)
class Line:
    """One line of the input, without its end. `digest` stands for it and the batch's options;
    `text` is None for a line that is too long."""

    number: int
    text: bytes | None
    digest: str


class Lines:
    """The input's lines, in order. `total` is their number, or None where it can't be known.

    `salt` goes into every digest: whatever else than the line decides the answer.
    """

    def __init__(self, name: str, salt: str, most: int = MAX_LINE) -> None:
        self.name, self._most = name, most
        self._seed = hashlib.sha256(salt.encode())
        self.total: int | None = None
        try:
            if name == "-":
                self._file: IO[bytes] = sys.stdin.buffer
            else:
                if Path(name).is_file():
                    self.total = _count(name)
                self._file = open(name, "rb")  # noqa: SIM115
        except OSError as error:
            raise BatchError(f"{name} can't be read: {error.strerror}.") from error

    def __iter__(self) -> Iterator[Line]:
        number = 0
        while True:
            line = self._line(number + 1)
            if line is None:
                return
            number += 1
            yield line

    def __enter__(self) -> Lines:
        return self

    def __exit__(self, *_: object) -> None:
        """Standard input stays open."""
        if self._file is not sys.stdin.buffer:
            self._file.close()

    def _line(self, number: int) -> Line | None:
        digest = self._seed.copy()
        pieces: list[bytes] = []
        size = 0
        while True:
            try:
                piece = self._file.readline(_PIECE)
            except OSError as error:
                raise BatchError(f"{self.name} can't be read: {error.strerror}.") from error
            ended = piece.endswith(b"\n")
            if not piece and not size:
                return None
            if number == 1 and not size:  # a mark that some editors put in front
                piece = piece.removeprefix(codecs.BOM_UTF8)
            size += len(piece)
            digest.update(piece.rstrip(b"\r\n") if ended else piece)
            if size <= self._most:
                pieces.append(piece)
            else:
                pieces.clear()
            if ended or not piece:
                break
        text = b"".join(pieces).rstrip(b"\r\n") if size <= self._most else None
        return Line(number, text, digest.hexdigest()[:16])


class Output:
    """The file that answers go to, a whole line at a time.

    Nothing in it changes before `begin`. Whatever happens then, it holds whole lines only: what was
    cut short is cut off, at once when a write fails, at the next start after a crash. A run on a
    file locks it. `done` are the digests of the lines that are answered already, `errors` the
    numbers of those that are errors.
    """

    def __init__(self, name: str, source: str, *, resume: bool, force: bool) -> None:
        self.name = name
        self.done: list[str] = []
        self.errors: list[int] = []
        self._path = Path(name)
        self._size = 0
        self._new = False
        try:
            self._stream = name == "-" or _is_special(self._path)
            if _is_input(None if name == "-" else self._path, source):
                what = "Standard output" if name == "-" else name
                raise BatchError(f"{what} is the input; the answers need a file of their own.")
            self._file: IO[bytes] = (
                sys.stdout.buffer if name == "-" else self._open(source, resume, force)
            )
        except OSError as error:
            raise self._unwritable(error) from error

    def begin(self) -> None:
        """Cut off what isn't gone on from: all of it, or half a line at the end."""
        self._new = False
        if not self._stream:
            try:
                self._file.truncate(self._size)
                self._file.seek(self._size)
            except OSError as error:
                raise self._unwritable(error) from error

    def write(self, line: bytes) -> None:
        """Write a line to its end, and past every buffer of ours. Raises BatchError."""
        try:
            if self._stream:
                self._file.write(line)
                self._file.flush()
                return
            rest = memoryview(line)
            while rest:
                rest = rest[self._file.write(rest) :]
            self._size += len(line)
        except OSError as error:
            if self._stream:
                raise self._unwritable(error) from error
            self._file.truncate(self._size)
            hint = " What was written before is whole: make room and go on with --resume."
            raise self._unwritable(error, hint) from error

    def close(self) -> None:
        """A file that nothing was to be written to is taken away again. Raises BatchError if the
        system only now says that it couldn't write."""
        if self._file is sys.stdout.buffer:
            return
        try:
            if not self._stream:
                os.fsync(self._file.fileno())
            self._file.close()
        except OSError as error:
            raise self._unwritable(error) from error
        if self._new:
            self._path.unlink(missing_ok=True)

    def __enter__(self) -> Output:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _open(self, source: str, resume: bool, force: bool) -> IO[bytes]:
        path = self._path
        if self._stream:
            return path.open("wb", buffering=0)
        if path.exists():
            if not resume and not force:
                raise BatchError(
                    f"{path} exists. --resume goes on where it ends, --force replaces it."
                )
        else:
            self._new = True
        file = open(os.open(path, os.O_RDWR | os.O_CREAT, 0o666), "r+b", buffering=0)  # noqa: SIM115
        try:
            _lock(file, path)
            if resume:
                self._read()
        except BaseException:
            file.close()
            raise
        return file

    def _read(self) -> None:
        """What is there already, up to its last whole line."""
        with open(self._path, "rb") as lines:
            for number, line in enumerate(lines, 1):
                if not line.endswith(b"\n"):
                    return
                try:
                    row = json.loads(line)
                    digest = row["x_request"]
                except (ValueError, TypeError, KeyError, RecursionError):
                    raise BatchError(
                        f"{self.name}, line {number}, is no answer of a batch (it has no "
                        "x_request), so it can't be gone on from. --force replaces the file."
                    ) from None
                self.done.append(str(digest))
                if "error" in row:
                    self.errors.append(number)
                self._size += len(line)

    def _unwritable(self, error: OSError, hint: str = "") -> BatchError:
        return BatchError(f"{self.name} can't be written: {error.strerror}.{hint}")


def _count(name: str) -> int:
    count, last = 0, b"\n"
    with open(name, "rb") as file:
        while piece := file.read(_PIECE):
            count += piece.count(b"\n")
            last = piece[-1:]
    return count + (last != b"\n")


def _is_input(out: Path | None, source: str) -> bool:
    """Whether the answers, None being standard output, would go to the file of the requests."""
    try:
        given = os.stat(sys.stdin.buffer.fileno() if source == "-" else source)
        made = os.stat(sys.stdout.buffer.fileno() if out is None else out)
    except (OSError, ValueError, AttributeError):  # not there, or no file of the system's
        return False
    return stat.S_ISREG(made.st_mode) and os.path.samestat(given, made)


def _is_special(path: Path) -> bool:
    """A device or a pipe: nothing to be replaced, resumed or cut."""
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return False
    return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)


def _lock(file: IO[bytes], path: Path) -> None:
    """Where the system has such locks."""
    try:
        import fcntl
    except ImportError:
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise BatchError(f"Another batch is writing {path}.") from None
