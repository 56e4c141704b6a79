"""Seeded tiny transformers models with every parameter randomised, as objects and as folders.

A fresh model hides faults: its norms are all ones (or zeros), its biases zero, its gates alike.
Here norms, biases, convolutions, decay rates and time steps are random too, at a scale that keeps
logits near 1, so that a dropped bias or a `w` in place of `1 + w` moves the answer.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import torch
from safetensors.torch import save_file
from transformers import (
    PreTrainedModel,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3_5ForCausalLM,
    Qwen3_5TextConfig,
    Qwen3Config,
    Qwen3ForCausalLM,
)

Architecture = Literal["qwen2", "qwen3", "qwen3_5"]
ARCHITECTURES: tuple[Architecture, ...] = ("qwen2", "qwen3", "qwen3_5")


def tiny_model(
    architecture: Architecture,
    *,
    layers: int = 4,
    tied: bool = True,
    value_heads: int | None = None,
    seed: int = 0,
    vocab: int = 512,
    hidden: int = 64,
    dtype: torch.dtype = torch.float32,
    **overrides: Any,
) -> PreTrainedModel:
    """A transformers model in eval mode; equal arguments give equal bits.

    `value_heads` (Qwen3.5 only) is 4 by default over 2 key heads, the ratio of the larger
    published models; 2 gives the ratio of the smaller ones. Head sizes differ on purpose from
    hidden/heads, and the value size of the delta rule from its key size, so that a transposed or
    mis-sized tensor can't pass. `overrides` are fields of the transformers configuration.
    """
    fields: dict[str, Any] = {
        "vocab_size": vocab,
        "hidden_size": hidden,
        "intermediate_size": 160,
        "num_hidden_layers": layers,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 1024,
        "tie_word_embeddings": tied,
        "attn_implementation": "eager",
    }
    rope: dict[str, Any] = {"rope_type": "default", "rope_theta": 10_000.0}
    build: Callable[[], PreTrainedModel]
    if architecture == "qwen2":
        fields |= {"rope_parameters": rope} | overrides
        build = lambda: Qwen2ForCausalLM(Qwen2Config(**fields))  # noqa: E731
    elif architecture == "qwen3":
        fields |= {"rope_parameters": rope, "head_dim": 32} | overrides
        build = lambda: Qwen3ForCausalLM(Qwen3Config(**fields))  # noqa: E731
    else:
        rope |= {"partial_rotary_factor": 0.25, "mrope_section": [2, 1, 1]}
        fields |= {
            "rope_parameters": rope,
            "head_dim": 32,
            "linear_num_key_heads": 2,
            "linear_num_value_heads": 4 if value_heads is None else value_heads,
            "linear_key_head_dim": 16,
            "linear_value_head_dim": 32,
        } | overrides
        build = lambda: Qwen3_5ForCausalLM(Qwen3_5TextConfig(**fields))  # noqa: E731
    if value_heads is not None and architecture != "qwen3_5":
        raise ValueError("value_heads belongs to qwen3_5")
    with torch.random.fork_rng():
        model = build()
    randomise(model, seed, zero_centred=architecture == "qwen3_5")
    return model.eval().to(dtype)


@torch.no_grad()
def randomise(model: PreTrainedModel, seed: int, *, zero_centred: bool) -> None:
    """Fill every parameter in name order from one generator. `zero_centred`: norms are `1 + w`."""
    generator = torch.Generator().manual_seed(seed)
    for name, parameter in sorted(model.named_parameters()):
        noise = torch.randn(parameter.shape, generator=generator)
        if name.endswith("A_log"):  # decay rates from almost none to nearly all at each token
            span = torch.rand(parameter.shape, generator=generator)
            value = math.log(0.01) + span * math.log(4.0 / 0.01)
        elif name.endswith("dt_bias"):
            value = 0.5 * noise - 1.0
        elif "norm" in name:
            plain = not zero_centred or ".linear_attn." in name
            value = 0.2 * noise + (1.0 if plain else 0.0)
        elif name.endswith("bias"):
            value = 0.2 * noise
        elif "conv1d" in name:
            value = 0.5 * noise
        else:  # linear layers and embeddings: [out, in]
            value = noise / math.sqrt(parameter.shape[-1])
        parameter.copy_(value)


def save_tiny(
    folder: Path,
    architecture: Architecture,
    *,
    max_shard_size: str | int | None = None,
    dtype: torch.dtype = torch.float32,
    **options: Any,
) -> PreTrainedModel:
    """Save `tiny_model(architecture, **options)` as a Hugging Face folder and return the model.

    `max_shard_size` (for example "100KB") makes a sharded folder with an index.
    """
    model = tiny_model(architecture, dtype=dtype, **options)
    folder.mkdir(parents=True, exist_ok=True)
    model.save_pretrained(folder, max_shard_size=max_shard_size or "50GB")
    return model


def save_multimodal(folder: Path, model: PreTrainedModel, *, tied: bool = True) -> None:
    """Save a tiny Qwen3.5 the way its multimodal class does: longer names, vision and MTP parts."""
    tensors = {
        name.replace("model.", "model.language_model.", 1): parameter.detach().clone()
        for name, parameter in model.named_parameters()
    }
    tensors |= {
        "model.visual.blocks.0.attn.qkv.weight": torch.randn(12, 4),
        "mtp.layers.0.mlp.up_proj.weight": torch.randn(160, 64),
        "mtp.norm.weight": torch.randn(64),
    }
    folder.mkdir(parents=True, exist_ok=True)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    config = {
        "architectures": ["Qwen3_5ForConditionalGeneration"],
        "model_type": "qwen3_5",
        "text_config": model.config.to_dict(),
        "vision_config": {"model_type": "qwen3_5_vision", "depth": 1},
        "tie_word_embeddings": tied,
    }
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
