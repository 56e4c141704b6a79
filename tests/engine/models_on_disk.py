"""Tiny models on the disk, complete with a tokenizer, as `Engine.from_pretrained` takes them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from transformers import PreTrainedModel

from readoff.engine.questions import Choice, Noul, Question, Score
from tests import models, tokenizers

CHATML = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


STATE = "The invoice was paid twice, and nobody answers."
TEAM = Choice(instructions="Which team?", criteria={"billing": "money", "tech": None, "sales": {}})
ANGER = Score(instructions="How angry?", criteria=["calm", "cross", "furious"])
REFUND = Noul(instructions="A refund is due.", criteria={"true": "yes, it is"})
ASKED: Mapping[str, Question] = {"team": TEAM, "anger": ANGER, "refund": REFUND}


def save_decider(
    folder: Path, architecture: models.Architecture = "qwen2", **options: Any
) -> PreTrainedModel:
    """A seeded model that can take decisions: weights, tokenizer, chat template."""
    options = {"max_position_embeddings": 2048} | options  # the tiny tokenizer counts bytes
    model = models.save_tiny(folder, architecture, **options)
    tokenizers.save_tiny(folder, CHATML)
    return model
