"""`TrainingState`: where an unfinished training stands, in one file, so that it goes on to the bit.

The file holds the matrices, the optimiser's moments, what has been done so far, and the facts of
the run (settings, data, base): a run with other facts can't go on from it. A digest of all of it
shows a flipped bit, which would go unnoticed in a number.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save

from readoff.learn.errors import TrainingError
from readoff.learn.files import write_bytes
from readoff.learn.lora import Lora
from readoff.learn.settings import differences

STATE = "training_state.safetensors"
_VERSION = 2
_MOMENTS = ("exp_avg", "exp_avg_sq")


@dataclass
class Progress:
    """What has been done: steps, tokens computed in them, seconds of work; the best validation NLL
    and its step; evaluations since then; and the curve, one record a step or evaluation."""

    step: int = 0
    tokens: int = 0
    seconds: float = 0.0
    best: float | None = None
    best_step: int = 0
    since_best: int = 0
    curve: list[dict[str, Any]] = field(default_factory=list)


def save_state(
    folder: Path,
    lora: Lora,
    optimizer: torch.optim.Optimizer,
    progress: Progress,
    facts: Mapping[str, Any],
) -> None:
    """Write the state in one step. Raises TrainingError; an earlier state is then untouched."""
    tensors: dict[str, torch.Tensor] = {}
    for name, matrix in _named(lora):
        tensors[name] = matrix.detach().cpu().contiguous()
        held = optimizer.state.get(matrix, {})
        for moment in _MOMENTS if held else ():
            tensors[f"{name}.{moment}"] = held[moment].cpu().contiguous()
    told = {"version": _VERSION, "facts": dict(facts), "progress": asdict(progress)}
    text = json.dumps(told, allow_nan=False)
    metadata = {"readoff": text, "sha256": _digest(text, tensors)}
    write_bytes(folder / STATE, save(tensors, metadata=metadata))


def load_state(
    folder: Path, lora: Lora, optimizer: torch.optim.Optimizer, facts: Mapping[str, Any]
) -> Progress:
    """Put matrices and moments back and return what had been done.

    Raises TrainingError where there is no state or it is damaged, and where it belongs to other
    settings, data or another base; the message names what differs.
    """
    path = folder / STATE
    if not path.is_file():
        raise TrainingError(
            f"{path} isn't there, so there is nothing to go on from: no training was begun there, "
            "or it has finished."
        )
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            told = json.loads(metadata["readoff"])
            if told["version"] != _VERSION:
                raise ValueError(f"version {told['version']}")
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            if metadata["sha256"] != _digest(metadata["readoff"], tensors):
                raise ValueError("its digest is another one")
            check_facts(told["facts"], facts, folder)
            progress = Progress(**told["progress"])
            with torch.no_grad():
                for name, matrix in _named(lora):
                    matrix.copy_(tensors[name])
                    if progress.step:
                        optimizer.state[matrix] = {
                            "step": torch.tensor(float(progress.step)),
                            **{m: tensors[f"{name}.{m}"] for m in _MOMENTS},
                        }
    except (SafetensorError, OSError, KeyError, TypeError, ValueError, RuntimeError) as error:
        raise TrainingError(
            f"{path} is damaged ({error}). Begin anew with --force; the adapter beside it is whole."
        ) from error
    return progress


def check_facts(before: Mapping[str, Any], now: Mapping[str, Any], folder: Path) -> None:
    """Raise TrainingError, naming every difference, unless a run is the one that was begun."""
    # As JSON has them: tuples are lists there.
    current = json.loads(json.dumps(now))
    if found := differences(before, current):
        raise TrainingError(
            f"The training in {folder} was begun otherwise: {'; '.join(found)}. Resume it as it "
            "was begun, or begin anew in another folder."
        )


def _digest(text: str, tensors: Mapping[str, torch.Tensor]) -> str:
    """sha256 of everything in a state's file."""
    digest = hashlib.sha256(text.encode())
    for name, tensor in sorted(tensors.items()):
        digest.update(f"{name} {list(tensor.shape)}".encode())
        digest.update(tensor.contiguous().numpy().data)
    return digest.hexdigest()


def _named(lora: Lora) -> list[tuple[str, torch.nn.Parameter]]:
    return [
        (f"{name}.{letter}", matrix)
        for name, a, b in lora.pairs()
        for letter, matrix in (("a", a), ("b", b))
    ]
