"""Saving a trained adapter in PEFT's format, and reading it back."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import torch
from safetensors.torch import load_file, save

from readoff.engine.card import CARD_FILE, Card
from readoff.engine.lora import CONFIG, WEIGHTS, read_adapter_config
from readoff.learn.errors import TrainingError
from readoff.learn.files import write_bytes, write_json
from readoff.learn.lora import Lora
from readoff.learn.settings import Stored

LABELS = "label_space.json"
DTYPES: Mapping[Stored, torch.dtype] = {
    "fp16": torch.float16,
    "bf16": torch.bfloat16,
    "fp32": torch.float32,
}
_PREFIX = "base_model.model."


def adapter_tensors(lora: Lora, stored: Stored) -> dict[str, torch.Tensor]:
    """Every matrix under the name that PEFT gives it, rounded to `stored`.

    Raises TrainingError for a value that the dtype can't hold.
    """
    tensors = {}
    for name, a, b in lora.pairs():
        for letter, matrix in (("A", a), ("B", b)):
            kept = matrix.detach().to(DTYPES[stored]).cpu().contiguous()
            if not torch.isfinite(kept).all():
                raise TrainingError(
                    f"{name}.lora_{letter} holds values that {stored} can't. Store bf16 or fp32."
                )
            tensors[f"{_PREFIX}{name}.lora_{letter}.weight"] = kept
    return tensors


def save_adapter(folder: Path, lora: Lora, stored: Stored) -> int:
    """Write adapter_model.safetensors; returns its bytes. Raises TrainingError as `write_bytes`."""
    content = save(adapter_tensors(lora, stored), metadata={"format": "pt"})
    write_bytes(folder / WEIGHTS, content)
    return len(content)


def begin_from(folder: Path, lora: Lora) -> None:
    """Give a fresh adapter the matrices of an earlier one, which `resolve` has checked.

    Raises TrainingError unless both change the same matrices in the same way.
    """
    config = read_adapter_config(folder)
    stored = load_file(folder / WEIGHTS)
    own = {
        f"{_PREFIX}{name}.lora_{letter}.weight": matrix
        for name, a, b in lora.pairs()
        for letter, matrix in (("A", a), ("B", b))
    }
    scale = lora.alpha / lora.rank
    alike = all(math.isclose(config.scale_of(name), scale) for name, _, _ in lora.pairs())
    shapes = {name: tuple(matrix.shape) for name, matrix in own.items()}
    if not alike or {name: tuple(one.shape) for name, one in stored.items()} != shapes:
        raise TrainingError(
            f"The adapter {folder} is of rank {config.rank} and alpha {config.alpha:g} for "
            f"{_told(config.target_modules)}; this training is of rank {lora.rank} and alpha "
            f"{lora.alpha:g} for {_told(lora.targets)}. Give --rank, --alpha and --target-modules "
            "as they are there."
        )
    with torch.no_grad():
        for name, matrix in own.items():
            matrix.copy_(stored[name])


def _told(modules: str | Sequence[str]) -> str:
    return modules if isinstance(modules, str) else ", ".join(sorted(modules))


def adapter_config(lora: Lora, base: str, revision: str | None = None) -> dict[str, Any]:
    """adapter_config.json as PEFT writes it; `base` becomes base_model_name_or_path.

    PEFT keeps the target modules as a set; here they are sorted, so that equal runs give equal
    files.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of PEFT about the versions of what it uses
        from peft import LoraConfig

        alpha = int(lora.alpha) if lora.alpha.is_integer() else lora.alpha
        made = LoraConfig(
            r=lora.rank,
            lora_alpha=cast(int, alpha),
            target_modules=list(lora.targets),
            lora_dropout=0.0,
            bias="none",
            task_type="CAUSAL_LM",
            base_model_name_or_path=base,
            revision=revision,
            inference_mode=True,
        )
        fields = made.to_dict()
    return {
        name: sorted(value) if isinstance(value, set) else value
        for name, value in sorted(fields.items())
    }


def save_config(folder: Path, config: Mapping[str, Any]) -> None:
    """Write what `adapter_config` made. Raises TrainingError."""
    write_json(folder / CONFIG, config)


def save_labels(folder: Path, card: Card) -> None:
    """Write what serving must know of how the adapter was trained: label_space.json, or a decision
    card where the template's order isn't the usual one, which the older file can't say.

    Raises TrainingError.
    """
    if card.template.order == Card.default().template.order:
        write_json(folder / LABELS, card.labels.to_json())
    else:
        plain = Card(template=card.template, labels=card.labels)
        try:
            plain.save(folder / CARD_FILE)
        except OSError as error:
            raise TrainingError(f"{folder / CARD_FILE} can't be written: {error}.") from error
