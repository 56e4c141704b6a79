"""Real PEFT adapters on tiny models, with every adapter weight randomised."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.torch import load_file, save_file
from transformers import PreTrainedModel

Tensors = dict[str, torch.Tensor]


@contextmanager
def quiet() -> Iterator[None]:
    """PEFT warns about tied heads and about its own use of transformers; neither is ours."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@torch.no_grad()
def save_adapter(
    folder: Path, base: PreTrainedModel, *, seed: int = 0, **options: Any
) -> PeftModel:
    """Save a PEFT adapter on a copy of `base` and return the (unmerged) adapted model.

    `options` are those of PEFT's LoraConfig. Trained-in-full modules are moved too.
    """
    generator = torch.Generator().manual_seed(seed)
    options = {"r": 4, "lora_alpha": 6, "init_lora_weights": False} | options
    with quiet():
        model = get_peft_model(copy.deepcopy(base), LoraConfig(**options))
        for name, parameter in sorted(model.named_parameters()):
            if parameter.requires_grad:
                noise = torch.randn(parameter.shape, generator=generator)
                parameter.copy_(noise * 0.2 if "lora_" in name else parameter + noise * 0.1)
        model.save_pretrained(folder)
    return model.eval()


def edit_adapter(folder: Path, change: Callable[[Tensors], Tensors]) -> None:
    """Rewrite the tensors of a saved adapter."""
    file = folder / "adapter_model.safetensors"
    save_file(change(load_file(file)), file, metadata={"format": "pt"})
