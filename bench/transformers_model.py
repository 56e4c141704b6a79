"""A transformers model on the very weights that our engine reads: the opponent of a benchmark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from transformers import (
    PretrainedConfig,
    PreTrainedModel,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3_5ForCausalLM,
    Qwen3_5TextConfig,
    Qwen3Config,
    Qwen3ForCausalLM,
)

from readoff.engine.config import ModelConfig

if TYPE_CHECKING:
    from readoff.engine.checkpoint import Checkpoint

EMBEDDING = "model.embed_tokens.weight"
HEAD = "lm_head.weight"


def transformers_config(config: ModelConfig, *, tied: bool) -> PretrainedConfig:
    """The transformers configuration of the same shape. `tied`: the head is the embedding."""
    common: dict[str, Any] = {
        "vocab_size": config.vocab_size,
        "hidden_size": config.hidden_size,
        "intermediate_size": config.intermediate_size,
        "num_hidden_layers": config.num_layers,
        "num_attention_heads": config.num_heads,
        "num_key_value_heads": config.num_kv_heads,
        "head_dim": config.head_dim,
        "rms_norm_eps": config.rms_norm_eps,
        "max_position_embeddings": config.max_position_embeddings,
        "tie_word_embeddings": tied,
        "layer_types": list(config.layer_types),
        "rope_parameters": {"rope_type": "default", "rope_theta": config.rope_theta},
    }
    if config.architecture == "qwen2":
        return Qwen2Config(**common)
    if config.architecture == "qwen3":
        return Qwen3Config(**common, attention_bias=config.qkv_bias)
    common["rope_parameters"] |= {"partial_rotary_factor": config.rotary_dim / config.head_dim}
    return Qwen3_5TextConfig(
        **common,
        linear_num_key_heads=config.linear_num_key_heads,
        linear_num_value_heads=config.linear_num_value_heads,
        linear_key_head_dim=config.linear_key_head_dim,
        linear_value_head_dim=config.linear_value_head_dim,
        linear_conv_kernel_dim=config.conv_kernel,
    )


def transformers_model(
    checkpoint: Checkpoint, *, dtype: torch.dtype, device: torch.device | str = "cpu"
) -> PreTrainedModel:
    """`checkpoint` as a transformers causal model in eval mode, its own copy of the weights.

    Every tensor is copied once, straight into `dtype` on `device`. Raises RuntimeError when a
    parameter of the transformers class isn't in the checkpoint or the other way round.
    """
    tied = HEAD not in checkpoint.names()
    config = transformers_config(checkpoint.config, tied=tied)
    classes: dict[str, type[PreTrainedModel]] = {
        "qwen2": Qwen2ForCausalLM,
        "qwen3": Qwen3ForCausalLM,
        "qwen3_5": Qwen3_5ForCausalLM,
    }
    with torch.device("meta"):
        model = classes[checkpoint.config.architecture](config)
    weights = {}
    for name in sorted(checkpoint.names()):
        weights[name] = torch.empty(checkpoint.shape(name), dtype=dtype, device=device)
        checkpoint.copy_into(name, weights[name])
    if tied:
        weights[HEAD] = weights[EMBEDDING]
    model.load_state_dict(weights, strict=True, assign=True)
    model.tie_weights()
    # The rotary tables are no parameters: made anew, they leave the meta device.
    rotary = model.model.rotary_emb
    model.model.rotary_emb = type(rotary)(config).to(device)
    model.eval()
    return model
