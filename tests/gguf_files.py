"""Writes tiny models as GGUF files, with a byte-level tokenizer inside."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import torch
from transformers import PreTrainedModel

LAYER = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "self_attn.o_proj": "attn_output",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
TOP = {
    "model.embed_tokens.weight": "token_embd.weight",
    "model.norm.weight": "output_norm.weight",
    "lm_head.weight": "output.weight",
}
TEMPLATE = "{% for m in messages %}{{ m.content }}{% endfor %}"


def byte_alphabet() -> list[str]:
    """The 256 characters that stand for bytes in byte-level BPE, in the order of the bytes."""
    visible = [*range(33, 127), *range(161, 173), *range(174, 256)]
    spare = iter(range(256, 512))
    return [chr(byte) if byte in visible else chr(next(spare)) for byte in range(256)]


def tokenizer_metadata(vocab: int = 512) -> dict[str, Any]:
    """256 bytes, two merges, a control and a user-defined token, and padding up to `vocab`."""
    tokens = [*byte_alphabet(), "he", "hel", "<|im_end|>", "<tool_call>"]
    types = [1] * 258 + [3, 4]
    padding = vocab - len(tokens)
    return {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "qwen2",
        "tokenizer.ggml.tokens": tokens + [f"[PAD{i}]" for i in range(padding)],
        "tokenizer.ggml.token_type": types + [5] * padding,
        "tokenizer.ggml.merges": ["h e", "he l"],
        "tokenizer.ggml.eos_token_id": 258,
        "tokenizer.ggml.padding_token_id": 258,
        "tokenizer.ggml.bos_token_id": 258,
        "tokenizer.chat_template": TEMPLATE,
    }


def model_metadata(model: PreTrainedModel) -> dict[str, Any]:
    config = model.config
    kind = config.model_type
    return {
        "general.architecture": kind,
        f"{kind}.block_count": config.num_hidden_layers,
        f"{kind}.context_length": config.max_position_embeddings,
        f"{kind}.embedding_length": config.hidden_size,
        f"{kind}.feed_forward_length": config.intermediate_size,
        f"{kind}.attention.head_count": config.num_attention_heads,
        f"{kind}.attention.head_count_kv": config.num_key_value_heads,
        f"{kind}.attention.key_length": getattr(config, "head_dim", 16),
        f"{kind}.attention.layer_norm_rms_epsilon": 1e-6,
        f"{kind}.rope.freq_base": 10_000.0,
    }


def gguf_name(name: str) -> str:
    if name in TOP:
        return TOP[name]
    layer, _, rest = name.removeprefix("model.layers.").partition(".")
    module, _, kind = rest.rpartition(".")
    return f"blk.{layer}.{LAYER[module]}.{kind}"


def write_gguf(
    path: Path,
    model: PreTrainedModel,
    *,
    kinds: Mapping[str, str] | None = None,
    default: str = "F32",
    metadata: Mapping[str, Any] | None = None,
    extra: Mapping[str, torch.Tensor] | None = None,
) -> dict[str, torch.Tensor]:
    """Write `model` and return the values that a reader should find, by our own names.

    `kinds` maps our names to gguf types for matrices, `default` is the type of all others; vectors
    are F32. A metadata value of None removes the key. `extra` adds tensors under GGUF names.
    """
    writer = gguf.GGUFWriter(path, "ignored")
    writer.kv_data[0].clear()
    values = model_metadata(model) | tokenizer_metadata(model.config.vocab_size)
    for key, value in (values | dict(metadata or {})).items():
        if value is not None:
            _add(writer, key, value)
    tensors = {gguf_name(name): tensor for name, tensor in model.named_parameters()}
    wanted = {gguf_name(name): kind for name, kind in (kinds or {}).items()}
    found: dict[str, torch.Tensor] = {}
    for name, tensor in (tensors | dict(extra or {})).items():
        array = tensor.detach().float().numpy()
        kind = wanted.get(name, default if array.ndim > 1 else "F32")
        label = gguf.GGMLQuantizationType[kind]
        packed = gguf.quants.quantize(array, label)
        writer.add_tensor(name, packed, raw_dtype=label)
        found[name] = torch.from_numpy(np.array(gguf.quants.dequantize(packed, label)))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    ours = {gguf_name(name): name for name, _ in model.named_parameters()}
    return {ours.get(name, name): tensor for name, tensor in found.items()}


def _add(writer: gguf.GGUFWriter, key: str, value: object) -> None:
    if isinstance(value, bool):
        writer.add_bool(key, value)
    elif isinstance(value, int):
        writer.add_uint32(key, value)
    elif isinstance(value, float):
        writer.add_float32(key, value)
    elif isinstance(value, str):
        writer.add_string(key, value)
    elif isinstance(value, list):
        writer.add_array(key, value)
    else:
        raise TypeError(f"{key}: {value!r}")
