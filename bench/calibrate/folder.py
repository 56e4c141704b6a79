"""The folder that a calibration goes to: whether it takes files, its card, and the published form
of the card where there is one."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from readoff.bench.report.files import RESULT
from readoff.bench.report.result import write_text
from readoff.engine.card import CARD_FILE, Card, read_object
from readoff.engine.errors import CardError, ReadoffError

PUBLISHED = ("calibration.json", "label_space.json")


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
    for name in (CARD_FILE, *PUBLISHED, RESULT, "report.md", "report.html"):
        if (folder / name).is_dir():
            raise ReadoffError(
                f"{folder / name} is a folder, and a file of that name is to be written. Move it "
                "away, or name another folder with --out."
            )


def save_card(folder: Path, card: Card) -> list[Path]:
    """Write the card, and calibration.json and label_space.json as published checkpoints have them;
    where these can't say it, those beside an earlier card that said just that are removed. Raises
    ReadoffError."""
    published, path = card.to_published(), folder / CARD_FILE
    try:
        stale = set() if published else _published_by(path)
        card.save(path)
        for name, content in published.items():
            path = folder / name
            write_text(path, json.dumps(content, indent=1) + "\n")
        for path in stale:
            path.unlink()
    except OSError as error:
        raise _unwritable(path, error) from error
    return [folder / name for name in (CARD_FILE, *published)]


def _published_by(card: Path) -> set[Path]:
    """The published files beside a card that are its own: they say what it would write."""
    try:
        files = Card.load(card).to_published()
        return {card.with_name(n) for n, told in files.items() if _says(card.with_name(n), told)}
    except CardError:
        return set()


def _says(path: Path, content: dict[str, object]) -> bool:
    return path.is_file() and read_object(path) == content


def _unwritable(path: Path, error: OSError) -> ReadoffError:
    return ReadoffError(
        f"{path} can't be written ({error.strerror or error}). Make room or give permission there, "
        "or name another folder with --out."
    )
