"""Tiny models on the disk, complete with a tokenizer, as `Engine.from_pretrained` takes them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from transformers import PreTrainedModel

from tests import models, tokenizers

CHATML = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def save_decider(
    folder: Path, architecture: models.Architecture = "qwen2", **options: Any
) -> PreTrainedModel:
    """A seeded model that can take decisions: weights, tokenizer, chat template."""
    options = {"max_position_embeddings": 2048} | options  # the tiny tokenizer counts bytes
    model = models.save_tiny(folder, architecture, **options)
    tokenizers.save_tiny(folder, CHATML)
    return model
