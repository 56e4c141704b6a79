"""The folder of an adapter: what may be in it before, and what is in it when training ends."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from readoff.engine.lora import CONFIG, RECORD, WEIGHTS
from readoff.engine.safetensors_checkpoint import INDEX, SINGLE
from readoff.learn.errors import TrainingError
from readoff.learn.files import LOCK, claimed, is_draft, write_bytes, write_json
from readoff.learn.state import STATE
from readoff.learn.trainer import Ending

PICTURE = "curves.png"
_BESIDE = ("label_space.json", "decision.json", "calibration.json")
_WRITTEN = (CONFIG, WEIGHTS, STATE, RECORD, PICTURE, *_BESIDE)
_ABOUT = ("evaluation.json", "evaluation.md", "chain.json", "data.json", "README.md")
"""What the other tools say of an adapter, which isn't true of the next one."""
_PICTURES = ("accuracy-*.png", "reliability-*.png")


@contextmanager
def prepared(out: Path, read: Iterable[Path], *, resume: bool, force: bool) -> Iterator[None]:
    """Have the folder for oneself, after making sure that it takes files and that nothing in it
    is lost. Nothing is changed yet: see `replace`.

    `read` are the folders of the model and of the data. Raises TrainingError for one of them, and
    for a folder with something in it, unless that is to be resumed or is an earlier training to be
    replaced.
    """
    try:
        if out.exists() and not out.is_dir():
            raise TrainingError(f"{out} is a file. Name a folder with --out.")
        if any(out.resolve() == folder.resolve() for folder in read):
            raise TrainingError(
                f"{out} is what the training reads from. Name another folder with --out."
            )
        for name in (SINGLE, INDEX):
            if (out / name).exists():
                raise TrainingError(
                    f"{out} holds a model ({name}), and an adapter beside one is never read. Name "
                    "another folder with --out."
                )
    except OSError as error:
        raise _unreadable(out, error) from error
    with claimed(out):
        try:
            _check(out, resume=resume, force=force)
        except OSError as error:
            raise _unreadable(out, error) from error
        yield


def _check(out: Path, *, resume: bool, force: bool) -> None:
    unfinished = (out / STATE).is_file()
    if resume:
        if not unfinished:
            raise TrainingError(
                f"{out} has no unfinished training: {STATE} isn't there. Leave --resume out to "
                "begin one."
            )
    elif unfinished and not force:
        raise TrainingError(
            f"{out} has an unfinished training. Go on with --resume, or begin anew with --force."
        )
    elif not force and not all(
        file.name == LOCK or is_draft(file, _WRITTEN) for file in out.iterdir()
    ):
        raise TrainingError(
            f"{out} isn't empty. Name another folder with --out, or replace an earlier training "
            "there with --force."
        )
    elif not unfinished and not _has_record(out):
        held = [name for name in _WRITTEN if (out / name).exists()]
        if held:
            raise TrainingError(
                f"{out} holds {held[0]}, and nothing there says that a training wrote it. Name "
                "another folder with --out, or move the file."
            )


def _has_record(out: Path) -> bool:
    """Whether an adapter that `readoff train` made lies there."""
    try:
        return "facts" in dict(json.loads((out / RECORD).read_bytes()))
    except (OSError, ValueError, TypeError, RecursionError):
        return False


def replace(out: Path) -> None:
    """Remove what belongs to an earlier training in a folder that passed `prepared`, but not the
    state: the new one is there already. What others put there stays.

    Raises TrainingError.
    """
    try:
        found = [out / name for name in _WRITTEN if name != STATE]
        if _has_record(out):
            found += [out / name for name in _ABOUT]
            found += [picture for pattern in _PICTURES for picture in out.glob(pattern)]
        found += [file for file in out.iterdir() if is_draft(file, _WRITTEN)]
        for file in found:
            file.unlink(missing_ok=True)
    except OSError as error:
        raise _irremovable(error) from error


def go_on(out: Path, best_step: int) -> None:
    """Check and tidy a folder in which a training goes on whose best adapter is of `best_step`.

    Raises TrainingError where that adapter is gone.
    """
    if best_step and not (out / WEIGHTS).is_file():
        raise TrainingError(
            f"{out / WEIGHTS} is gone: the adapter of step {best_step}, the best one so far. Put "
            "it back, or begin anew with --force."
        )
    try:
        if not best_step:  # what lies there was written after the state, or before the training
            (out / WEIGHTS).unlink(missing_ok=True)
        for file in out.iterdir():
            if is_draft(file, _WRITTEN):
                file.unlink()
    except OSError as error:
        raise _irremovable(error) from error


def finish(out: Path, document: Mapping[str, Any], ending: Ending) -> tuple[str, ...]:
    """Write the record and the picture; remove the state unless the training is to go on.

    Returns remarks for the user. Raises TrainingError.
    """
    from readoff.learn.curves import curves

    notes = []
    write_json(out / RECORD, document)
    if (picture := curves(document)) is not None:
        write_bytes(out / PICTURE, picture)
    if ending != "interrupted":
        (out / STATE).unlink(missing_ok=True)
        first, best = document["valid"]["before"], document["valid"]["best"]
        if best is not None and first is not None and best["nll"] >= first["nll"]:
            worse = best["nll"] > first["nll"]
            notes.append(
                f"the validation NLL never fell below the base's ({best['nll']:.4f} against "
                f"{first['nll']:.4f}): the adapter {'makes it worse' if worse else 'is no better'}."
            )
    return tuple(notes)


def _irremovable(error: OSError) -> TrainingError:
    return TrainingError(
        f"{error.filename} can't be removed ({error.strerror}). Remove it, and go on with --resume."
    )


def _unreadable(out: Path, error: OSError) -> TrainingError:
    return TrainingError(f"{out} can't be read ({error.strerror}). Name another folder with --out.")
