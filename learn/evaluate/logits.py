"""Raw logits of a subject, collected in chunks that are kept: a second run asks no model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path
from typing import Protocol

from readoff.bench.calibrate.cache import cache_path, load_rows, save_rows
from readoff.bench.calibrate.collect import collect, labelled_rows, relabelled
from readoff.bench.calibrate.data import requests_digest
from readoff.bench.calibrate.rows import PAD, Rows, padded
from readoff.bench.records import Ask
from readoff.engine.card_fields import DEBIAS, ROTATIONS, Debias
from readoff.engine.debias import fingerprint
from readoff.engine.engine import Engine
from readoff.engine.questions import Choice

CHUNK = 48
"""Requests whose logits are kept together: what an interrupted run loses at most."""

WIDE, FEW = 26, 2
"""Choices of more than `WIDE` options are rotated into `FEW` orders, as in docs/calibration.md:
each order costs more than a thousand tokens."""

Tell = Callable[[int, int], None]


class Keyed(Protocol):
    """What is needed of a subject."""

    @property
    def key(self) -> object:
        """Everything that its logits depend on."""

    @property
    def engine(self) -> Engine:
        """The model."""


def modes_for(debias: Debias) -> tuple[Debias, ...]:
    """What is collected at once: of "both" all the others are parts."""
    return DEBIAS if debias == "both" else ("none",) if debias == "none" else ("none", debias)


def kept_rows(
    subject: Keyed,
    asks: Sequence[Ask],
    modes: Sequence[Debias],
    folder: Path,
    *,
    rotations: int | None = None,
    tell: Tell = lambda done, total: None,
) -> dict[Debias, Rows]:
    """The rows of all labelled questions of `asks` under each of `modes`, as `collect` has them.

    Chunks that lie in `folder` are read. `rotations` None: 4, and 2 for wide choices. `tell` is
    called with (requests done, of how many). Raises ReadoffError as the engine does.
    """
    z: dict[Debias, list[list[list[float]]]] = {mode: [[]] * len(asks) for mode in modes}
    done = 0
    tell(0, len(asks))
    for orders, numbers in _chunks(asks, rotations):
        some = [asks[i] for i in numbers]
        found = _chunk(subject, some, modes, folder, orders)
        for mode, rows in found.items():
            lines = iter(zip(rows.z.tolist(), rows.sizes.tolist(), strict=True))
            for i, ask in zip(numbers, some, strict=True):
                z[mode][i] = [line[:size] for line, size in islice(lines, len(ask.targets))]
        done += len(numbers)
        tell(done, len(asks))
    return {
        mode: labelled_rows(asks, padded([line for lines in of for line in lines], PAD))
        for mode, of in z.items()
    }


def _chunks(asks: Sequence[Ask], rotations: int | None) -> list[tuple[int, list[int]]]:
    """(orders, numbers of the asks). Equal questions lie together: they share their prior."""

    def orders(ask: Ask) -> int:
        if rotations is not None:
            return rotations
        choices = [q for q in ask.questions.values() if isinstance(q, Choice)]
        wide = any(len(question.options) > WIDE for question in choices)
        return FEW if wide else ROTATIONS

    groups: dict[int, list[int]] = {}
    for number, ask in enumerate(asks):
        groups.setdefault(orders(ask), []).append(number)
    chunks = []
    for count, numbers in sorted(groups.items()):
        numbers.sort(key=lambda i: ([fingerprint(q) for q in asks[i].questions.values()], i))
        chunks += [(count, numbers[at : at + CHUNK]) for at in range(0, len(numbers), CHUNK)]
    return chunks


def _chunk(
    subject: Keyed, asks: Sequence[Ask], modes: Sequence[Debias], folder: Path, rotations: int
) -> dict[Debias, Rows]:
    asked = requests_digest(asks)
    paths = {}
    for mode in modes:
        turned = rotations if mode in ("rotate", "both") else None
        of = {"subject": subject.key, "requests": asked, "debias": mode, "rotations": turned}
        paths[mode] = cache_path(folder, of)
    found: dict[Debias, Rows] = {}
    for mode, path in paths.items():
        kept = load_rows(path, asked)
        rows = None if kept is None else relabelled(kept, asks)
        if rows is not None:
            found[mode] = rows
    if len(found) < len(modes):
        engine = subject.engine
        engine.clear_cache()  # what a chunk says doesn't depend on the chunks before it
        found = collect(engine, asks, modes, rotations=rotations)
        for mode, path in paths.items():
            save_rows(path, found[mode], asked)
    return found
