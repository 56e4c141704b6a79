"""A tiny base with adapters on the disk, PEFT's unmerged model of them, and the merged folder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from peft import PeftModel
from transformers import AutoModelForCausalLM, PreTrainedModel

from readoff.export.merge import merge
from readoff.export.merged import Merged
from tests.adapters import quiet, save_adapter
from tests.engine.models_on_disk import CHATML, save_decider
from tests.gguf_files import byte_alphabet
from tests.models import Architecture

GGUF_TOKENIZER: dict[str, Any] = {
    # Bytes and the ends of turns: enough for a prompt, and for labels of one capital.
    "tokenizer.ggml.tokens": [*byte_alphabet(), "Tr", "ue", "True", "Fa", "ls", "lse", "False"]
    + ["<|im_start|>", "<|im_end|>"]
    + [f"[PAD{n}]" for n in range(512 - 265)],
    "tokenizer.ggml.token_type": [1] * 263 + [3, 3] + [5] * (512 - 265),
    "tokenizer.ggml.merges": ["T r", "u e", "Tr ue", "F a", "l s", "ls e", "Fa lse"],
    "tokenizer.ggml.eos_token_id": 264,
    "tokenizer.ggml.padding_token_id": None,
    "tokenizer.chat_template": CHATML,
}

IDS = torch.arange(5, 75).view(2, 35)


@dataclass(frozen=True)
class Case:
    """`model` is the base as transformers has it, each adapter a folder."""

    base: Path
    adapters: tuple[Path, ...]
    out: Path
    model: PreTrainedModel

    def merge(self, **options: Any) -> Merged:
        """Write `out`."""
        return merge(self.base, self.adapters, self.out, progress=False, **options)

    def unmerged(self) -> Any:
        """PEFT's own model, all adapters active: base and changes apart, fp32."""
        with quiet():
            base = AutoModelForCausalLM.from_pretrained(
                self.base, dtype=torch.float32, attn_implementation="eager"
            )
            names = [folder.name for folder in self.adapters]
            model: Any = PeftModel.from_pretrained(base, self.adapters[0], adapter_name=names[0])
            for name, folder in zip(names[1:], self.adapters[1:], strict=True):
                model.load_adapter(folder, name)
            model.base_model.set_adapter(names)
        return model.eval()


def case(
    folder: Path,
    architecture: Architecture = "qwen2",
    adapters: Sequence[dict[str, Any]] = ({"target_modules": "all-linear"},),
    **options: Any,
) -> Case:
    """Save a seeded base (`options` as in `save_decider`) and adapters with these PEFT options."""
    model = save_decider(folder / "base", architecture, **options)
    saved = []
    for number, fields in enumerate(adapters):
        saved.append(folder / f"adapter{number}")
        save_adapter(saved[-1], model.float(), seed=number, **fields)
    return Case(folder / "base", tuple(saved), folder / "merged", model)


def load(folder: Path) -> PreTrainedModel:
    """The folder as transformers loads it, computed in fp32; nothing may be missing or left."""
    kind: Any = AutoModelForCausalLM
    with quiet():
        model, told = kind.from_pretrained(
            folder, dtype=torch.float32, attn_implementation="eager", output_loading_info=True
        )
    assert not any(told[name] for name in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    loaded: PreTrainedModel = model.eval()
    return loaded


@torch.no_grad()
def logits(model: Any) -> torch.Tensor:
    """[2, 35, vocab]."""
    result: torch.Tensor = model(IDS).logits
    return result


def apart(found: torch.Tensor, expected: torch.Tensor) -> float:
    """The relative error: ‖found - expected‖ / ‖expected‖.

    Single logits of the hybrid are 1e-5 of the largest apart in transformers' fp32 alone: that
    much lies between PEFT's own merged and unmerged forms.
    """
    return float((found - expected).norm() / expected.norm())
