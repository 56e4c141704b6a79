"""`ModelConfig.from_hf` against transformers' own reading, both spellings, and every refusal."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from readoff.engine.config import ModelConfig
from readoff.engine.errors import CheckpointError
from tests.models import ARCHITECTURES, Architecture, tiny_model

QWEN2: dict[str, Any] = {
    "model_type": "qwen2",
    "vocab_size": 512,
    "hidden_size": 64,
    "intermediate_size": 160,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 1024,
    "rms_norm_eps": 1e-6,
    "rope_theta": 1e6,
}
QWEN3 = QWEN2 | {"model_type": "qwen3", "head_dim": 32}
QWEN3_5 = QWEN3 | {
    "model_type": "qwen3_5_text",
    "num_hidden_layers": 8,
    "linear_num_key_heads": 16,
    "linear_num_value_heads": 32,
    "linear_key_head_dim": 128,
    "linear_value_head_dim": 64,
    "linear_conv_kernel_dim": 4,
}
ALL = {"qwen2": QWEN2, "qwen3": QWEN3, "qwen3_5": QWEN3_5}


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_reads_what_transformers_writes(architecture: Architecture) -> None:
    hf = tiny_model(architecture, layers=4, tied=False).config
    config = ModelConfig.from_hf(json.loads(hf.to_json_string(use_diff=False)))
    assert config.architecture == architecture
    assert config.vocab_size == hf.vocab_size
    assert config.num_layers == hf.num_hidden_layers
    assert config.num_kv_heads == hf.num_key_value_heads
    assert config.head_dim == getattr(hf, "head_dim", 16)
    assert config.rope_theta == 10_000.0
    assert config.rotary_dim == (8 if architecture == "qwen3_5" else config.head_dim)
    assert config.layer_types == tuple(hf.layer_types)
    assert config.qkv_bias == (architecture == "qwen2")
    assert config.is_hybrid == (architecture == "qwen3_5")
    assert not config.tie_word_embeddings
    assert config.dtype is None


def test_old_spelling_of_a_hybrid() -> None:
    old = QWEN3_5 | {
        "partial_rotary_factor": 0.5,
        "rope_scaling": {"rope_type": "default", "mrope_section": [11, 11, 10]},
        "full_attention_interval": 2,
        "torch_dtype": "bfloat16",
        "tie_word_embeddings": True,
    }
    config = ModelConfig.from_hf(old)
    assert config.rope_theta == 1e6
    assert config.rotary_dim == 16
    assert config.layer_types == ("linear_attention", "full_attention") * 4
    assert config.dtype == "bfloat16"
    assert config.tie_word_embeddings
    assert (config.linear_num_key_heads, config.linear_num_value_heads) == (16, 32)
    assert (config.linear_key_head_dim, config.linear_value_head_dim) == (128, 64)
    assert config.conv_kernel == 4


def test_defaults_of_a_hybrid() -> None:
    config = ModelConfig.from_hf(QWEN3_5)
    assert config.rotary_dim == 8  # a quarter of 32
    assert config.layer_types[:4] == ("linear_attention",) * 3 + ("full_attention",)


def test_multimodal_config_reads_its_text_part() -> None:
    outer = {
        "model_type": "qwen3_5",
        "text_config": QWEN3_5 | {"dtype": "bfloat16"},
        "vision_config": {"hidden_act": "gelu_pytorch_tanh", "quantization_config": {}},
        "tie_word_embeddings": True,
    }
    config = ModelConfig.from_hf(outer)
    assert config.architecture == "qwen3_5"
    assert config.num_layers == 8
    assert config.tie_word_embeddings
    assert config.dtype == "bfloat16"


def test_qwen2_head_size_follows_from_the_heads() -> None:
    assert ModelConfig.from_hf(QWEN2).head_dim == 16
    assert ModelConfig.from_hf(QWEN2 | {"num_key_value_heads": None}).num_kv_heads == 4


def test_an_unused_sliding_window_is_no_obstacle() -> None:
    windows = {"sliding_window": 4096, "max_window_layers": 2}
    ModelConfig.from_hf(QWEN2 | windows | {"use_sliding_window": True})
    ModelConfig.from_hf(QWEN2 | windows | {"use_sliding_window": False, "max_window_layers": 0})


REQUIRED = {
    "qwen2": [name for name in QWEN2 if name != "num_key_value_heads"],
    "qwen3": [*QWEN3],
    "qwen3_5": [*QWEN3_5],
}


@pytest.mark.parametrize(
    ("architecture", "field"),
    [
        (architecture, field)
        for architecture, fields in REQUIRED.items()
        for field in fields
        if field != "num_key_value_heads"
    ],
)
def test_a_missing_field_is_named(architecture: str, field: str) -> None:
    broken = {name: value for name, value in ALL[architecture].items() if name != field}
    with pytest.raises(CheckpointError, match=field):
        ModelConfig.from_hf(broken)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model_type": "llama"}, "'llama' is unknown.*Qwen2"),
        ({"model_type": "qwen3_moe"}, "experts"),
        ({"model_type": ["qwen2"]}, "model_type"),
        ({"num_experts": 8}, "experts"),
        ({"quantization_config": {"bits": 4}}, "quantised"),
        ({"hidden_act": "gelu"}, "'gelu'"),
        ({"use_sliding_window": True, "sliding_window": 64, "max_window_layers": 1}, "window"),
        ({"layer_types": ["full_attention", "sliding_attention"]}, "sliding_attention"),
        ({"layer_types": ["full_attention"]}, "layer_types"),
        ({"layer_types": ["full_attention", "linear_attention"]}, "linear_attention"),
        ({"rope_scaling": {"type": "yarn", "factor": 4.0}}, "'yarn'"),
        ({"rope_parameters": {"rope_type": "dynamic", "rope_theta": 1e4}}, "'dynamic'"),
        ({"rope_scaling": "yarn"}, "rope_scaling"),
        ({"partial_rotary_factor": 0.5}, "partial_rotary_factor"),
        ({"hidden_size": "64"}, "hidden_size.*'64'"),
        ({"hidden_size": 0}, "hidden_size"),
        ({"hidden_size": True}, "hidden_size"),
        ({"hidden_size": 66}, "multiple"),
        ({"num_key_value_heads": 3}, "divide"),
        ({"rms_norm_eps": float("nan")}, "rms_norm_eps"),
        ({"rms_norm_eps": False}, "rms_norm_eps"),
        ({"use_sliding_window": True, "sliding_window": 64, "max_window_layers": "1"}, "layers"),
        ({"layer_types": [["full_attention"], []]}, "layer type"),
        ({"head_dim": 10**400}, "head_dim"),
        ({"rope_theta": -1.0}, "rope_theta"),
        ({"rope_theta": 10**400}, "rope_theta"),
        ({"rope_theta": "big"}, "rope_theta"),
        ({"tie_word_embeddings": "yes"}, "tie_word_embeddings"),
        ({"text_config": QWEN2}, "text_config"),
    ],
)
def test_refuses_what_would_be_computed_wrongly(change: dict[str, Any], message: str) -> None:
    with pytest.raises(CheckpointError, match=message):
        ModelConfig.from_hf(QWEN2 | change)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"attention_bias": True}, "attention_bias"),
        ({"attn_output_gate": False}, "attn_output_gate"),
        ({"linear_num_value_heads": 24}, "linear_num_value_heads"),
        ({"partial_rotary_factor": 0.1}, "rotary"),
        ({"partial_rotary_factor": 1.5}, "partial_rotary_factor"),
        ({"layer_types": ["sliding_attention"] * 8}, "sliding_attention"),
        ({"moe_intermediate_size": 32}, "experts"),
    ],
)
def test_refuses_unsupported_hybrids(change: dict[str, Any], message: str) -> None:
    with pytest.raises(CheckpointError, match=message):
        ModelConfig.from_hf(QWEN3_5 | change, "somewhere/config.json")


def test_messages_name_the_file() -> None:
    with pytest.raises(CheckpointError, match=r"^somewhere/config\.json"):
        ModelConfig.from_hf({}, "somewhere/config.json")


def test_needs_no_torch() -> None:
    blocked = "import sys\nfor name in ('torch', 'transformers', 'triton', 'gguf'):\n"
    blocked += "    sys.modules[name] = None\n"
    modules = ("config", "parameters", "cache", "progress", "downloads", "fetch", "lora_config")
    code = blocked + "".join(f"import readoff.engine.{module}\n" for module in modules)
    subprocess.run([sys.executable, "-c", code], check=True)
