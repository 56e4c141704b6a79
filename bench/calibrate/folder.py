"""The folder that a calibration goes to: whether it takes files, and its card."""

from __future__ import annotations

import tempfile
from pathlib import Path

from readoff.bench.report.files import RESULT
from readoff.engine.card import CARD_FILE, Card
from readoff.engine.errors import ReadoffError


def check_folder(folder: Path) -> None:
    """Make `folder` and write to it, so that nothing is computed for one that takes no files.

    Raises ReadoffError; also where a folder stands in the place of a file.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as probe:
            probe.write(b"0")
    except OSError as error:
        raise _unwritable(folder, error) from error
    for name in (CARD_FILE, RESULT, "report.md", "report.html"):
        if (folder / name).is_dir():
            raise ReadoffError(
                f"{folder / name} is a folder, and a file of that name is to be written. Move it "
                "away, or name another folder with --out."
            )


def save_card(folder: Path, card: Card) -> Path:
    """Write the card. Raises ReadoffError."""
    path = folder / CARD_FILE
    try:
        card.save(path)
    except OSError as error:
        raise _unwritable(path, error) from error
    return path


def _unwritable(path: Path, error: OSError) -> ReadoffError:
    return ReadoffError(
        f"{path} can't be written ({error.strerror or error}). Make room or give permission there, "
        "or name another folder with --out."
    )
