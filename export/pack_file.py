"""`PackFile`: what a pack records about one of its files, and how a file is compared with that."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, cast

from readoff.export.errors import PackError

SMALL = 16 << 20
"""Files of at most so many bytes are digested whole whenever a pack is opened."""

WINDOWS, WINDOW = 64, 64 << 10
"""Of larger ones, so many windows of so many bytes: 4 MiB, some milliseconds from a warm disk,
where sha256 of 2 GB was measured at 1.3 s."""


@dataclass(frozen=True)
class PackFile:
    """Size in bytes, sha256 of all, and for a large file sha256 of its size and some windows.

    The windows lie evenly, the first at the beginning and the last at the end: they find a file
    that was cut short, swapped, or only partly written, but not one flipped bit between them.
    """

    size: int
    sha256: str
    sampled: str | None = None

    @classmethod
    def of(cls, path: Path) -> PackFile:
        """The record of a file as it is."""
        size = path.stat().st_size
        return cls(size, whole_digest(path), sampled_digest(path) if size > SMALL else None)

    @classmethod
    def parse(cls, name: str, entry: object) -> PackFile:
        """From its entry in pack.json. Raises PackError."""
        fields: Mapping[str, Any] = entry if isinstance(entry, Mapping) else {}
        size, sha256, sampled = fields.get("size"), fields.get("sha256"), fields.get("sampled")
        plain = bool(name) and name not in (".", "..") and not set(name) & set("/\\\0")
        sized = isinstance(size, int) and not isinstance(size, bool) and size >= 0
        texts = isinstance(sha256, str) and isinstance(sampled, str | None)
        if not (plain and sized and texts):
            raise PackError(f"The pack's entry for the file {name!r} can't be read. Export again.")
        return cls(cast(int, size), cast(str, sha256), sampled)

    def to_json(self) -> dict[str, object]:
        """Its entry in pack.json."""
        found: dict[str, object] = {"size": self.size, "sha256": self.sha256}
        return found if self.sampled is None else found | {"sampled": self.sampled}

    def check(self, path: Path, *, verify: bool = False) -> None:
        """Raise PackError unless the file at `path` is the one that was recorded.

        Its size always; all of a small file, and of a large one the windows, or with `verify` all.
        """
        try:
            size = path.stat().st_size
            if size != self.size:
                short = " It was cut short." if size < self.size else ""
                raise PackError(
                    f"{path} has {size} bytes and the pack was made with {self.size}.{short} "
                    "Copy the pack again."
                )
            if verify or self.sampled is None:
                same = whole_digest(path) == self.sha256
            else:
                same = sampled_digest(path) == self.sampled
        except FileNotFoundError:
            raise PackError(f"{path} is missing; the pack isn't complete. Copy it again.") from None
        except OSError as error:
            raise PackError(f"{path} can't be read: {error.strerror}.") from error
        if not same:
            raise PackError(
                f"{path} isn't the file that the pack was made with: its sha256 differs. Copy the "
                "pack again, or export anew if the file was meant to change."
            )


def whole_digest(path: Path) -> str:
    """sha256 (hex) of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sampled_digest(path: Path) -> str:
    """sha256 (hex) of a file's size and of `WINDOWS` windows of it."""
    with path.open("rb") as file:
        return _sampled(file, path.stat().st_size)


def _sampled(file: BinaryIO, size: int) -> str:
    digest = hashlib.sha256(size.to_bytes(8, "little"))
    last = max(0, size - WINDOW)
    for window in range(WINDOWS):
        file.seek(last * window // (WINDOWS - 1))
        digest.update(file.read(WINDOW))
    return digest.hexdigest()
