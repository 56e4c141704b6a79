"""The folder of an adapter: what may be in it before, and what is in it when training ends."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from readoff.engine.lora import CONFIG, WEIGHTS
from readoff.learn.errors import TrainingError
from readoff.learn.files import write_bytes, write_json
from readoff.learn.state import STATE
from readoff.learn.trainer import Ending

RECORD, PICTURE = "training.json", "curves.png"
_BESIDE = ("label_space.json", "decision.json", "calibration.json")
_OURS = (CONFIG, WEIGHTS, STATE, RECORD, PICTURE, *_BESIDE)


def prepare(out: Path, *, resume: bool, force: bool) -> None:
    """Make the folder, and make sure that it takes files and that nothing in it is lost.

    Raises TrainingError: for a folder with something in it, unless that is to be resumed or
    replaced; with `force` an earlier training's files are removed, others never.
    """
    if resume:
        if not (out / STATE).is_file():
            raise TrainingError(
                f"{out} has no unfinished training: {STATE} isn't there. Leave --resume out to "
                "begin one."
            )
    elif (out / STATE).is_file() and not force:
        raise TrainingError(
            f"{out} has an unfinished training. Go on with --resume, or begin anew with --force."
        )
    elif out.exists() and not out.is_dir():
        raise TrainingError(f"{out} is a file. Name a folder with --out.")
    elif out.is_dir() and any(out.iterdir()) and not force:
        raise TrainingError(
            f"{out} isn't empty. Name another folder with --out, or replace an earlier training "
            "there with --force."
        )
    if force and not resume and out.is_dir():
        for name in _OURS:
            if (out / name).is_dir():
                shutil.rmtree(out / name)
            else:
                (out / name).unlink(missing_ok=True)
    try:
        out.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=out) as probe:
            probe.write(b"0")
    except OSError as error:
        raise TrainingError(
            f"{out} can't be written to ({error.strerror}). Name another folder with --out."
        ) from error


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
            notes.append(
                f"the validation NLL never fell below the base's ({best['nll']:.4f} against "
                f"{first['nll']:.4f}): the adapter makes it worse."
            )
    return tuple(notes)
