"""What a Hugging Face folder holds besides the weights: its config and what lies beside it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch

from readoff.engine.checkpoint import Checkpoint, read_json
from readoff.engine.config import Architecture, ModelConfig
from readoff.engine.gguf_checkpoint import GgufCheckpoint
from readoff.engine.safetensors_checkpoint import SafetensorsCheckpoint
from readoff.engine.tokenizer import Tokenizer

TOKENIZER_FILES = (
    "tokenizer.json",
    "tokenizer_config.json",
    "chat_template.jinja",
    "chat_template.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "merges.txt",
)
BESIDE = ("generation_config.json", "LICENSE", "LICENSE.txt", "LICENSE.md", "NOTICE")
"""What else belongs to a base and to whatever is made from it."""

_CLASSES: dict[Architecture, str] = {
    "qwen2": "Qwen2ForCausalLM",
    "qwen3": "Qwen3ForCausalLM",
    "qwen3_5": "Qwen3_5ForCausalLM",
}
_SPECIAL = ("bos_token_id", "eos_token_id", "pad_token_id")


def hf_config(
    base: Checkpoint, config: ModelConfig, dtype: torch.dtype, tokenizer: Tokenizer
) -> dict[str, Any]:
    """The config.json of a text-only model with the tensors of `config`, stored in `dtype`.

    It is the base's own where the base is a folder: every field stays that says nothing about
    whether the head is tied, the dtype or parts that aren't exported.
    """
    if isinstance(base, SafetensorsCheckpoint):
        fields = _own_config(base.folder)
    elif isinstance(base, GgufCheckpoint):
        fields = _gguf_config(config, tokenizer)
    else:
        raise TypeError(f"{type(base).__name__} has no config to export")
    if config.architecture == "qwen3_5":
        fields["model_type"] = "qwen3_5_text"
    fields["architectures"] = [_CLASSES[config.architecture]]
    fields["tie_word_embeddings"] = config.tie_word_embeddings
    # "torch_dtype" is the spelling before transformers 5; whoever uses it may read no other.
    for name in [name for name in ("torch_dtype", "dtype") if name in fields] or ["dtype"]:
        fields[name] = str(dtype).removeprefix("torch.")
    return fields


def _own_config(folder: Path) -> dict[str, Any]:
    outer = read_json(folder / "config.json")
    inner = outer.get("text_config")
    if not isinstance(inner, dict):
        inner = outer
    kept = {
        name: value
        for name, value in inner.items()
        # Prediction heads for several tokens and vision towers aren't exported.
        if not name.startswith(("mtp_", "vision_")) and name != "_name_or_path"
    }
    for name in (*_SPECIAL, "transformers_version"):
        if kept.get(name) is None and outer.get(name) is not None:
            kept[name] = outer[name]
    return kept


def _gguf_config(config: ModelConfig, tokenizer: Tokenizer) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "model_type": config.architecture,
        "hidden_act": "silu",
        "hidden_size": config.hidden_size,
        "intermediate_size": config.intermediate_size,
        "num_hidden_layers": config.num_layers,
        "num_attention_heads": config.num_heads,
        "num_key_value_heads": config.num_kv_heads,
        "head_dim": config.head_dim,
        "max_position_embeddings": config.max_position_embeddings,
        "rms_norm_eps": config.rms_norm_eps,
        "rope_theta": config.rope_theta,
        "vocab_size": config.vocab_size,
        "use_sliding_window": False,
        "attention_dropout": 0.0,
        "use_cache": True,
        "torch_dtype": None,  # readable by every version of transformers; the caller fills it
    }
    for name in _SPECIAL:
        token = tokenizer.special_tokens.get(name.removesuffix("_id"))
        if token in tokenizer.added_tokens:
            fields[name] = tokenizer.added_tokens[token]
    return fields


def write_config(folder: Path, fields: dict[str, Any]) -> None:
    """Write `fields` as the folder's config.json."""
    text = json.dumps(fields, indent=2, ensure_ascii=False)
    (folder / "config.json").write_text(text + "\n", encoding="utf-8")


def copy_files(source: Path, names: Iterable[str], folder: Path) -> None:
    """Copy those of `names` that `source` has, links followed."""
    for name in names:
        if (source / name).is_file():
            shutil.copyfile(source / name, folder / name)
