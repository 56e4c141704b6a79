"""The list of tensors against transformers, and the mapping of names."""

from __future__ import annotations

from typing import Any

import pytest

from readoff.engine.config import ModelConfig
from readoff.engine.errors import CheckpointError
from readoff.engine.parameters import check_parameters, normalise, parameter_shapes, spell_like
from tests.models import Architecture, tiny_model


@pytest.mark.parametrize(
    ("architecture", "options"),
    [
        ("qwen2", {}),
        ("qwen2", {"tied": False, "layers": 2}),
        ("qwen3", {}),
        ("qwen3", {"tied": False, "hidden": 96}),
        ("qwen3_5", {"value_heads": 4}),
        ("qwen3_5", {"value_heads": 2, "tied": False}),
    ],
)
def test_names_and_shapes_are_those_of_transformers(
    architecture: Architecture, options: dict[str, Any]
) -> None:
    model = tiny_model(architecture, **options)
    expected = {name: tuple(tensor.shape) for name, tensor in model.named_parameters()}
    assert parameter_shapes(ModelConfig.from_hf(model.config.to_dict())) == expected


@pytest.mark.parametrize(
    ("stored", "normal"),
    [
        ("model.layers.0.mlp.up_proj.weight", "model.layers.0.mlp.up_proj.weight"),
        ("model.language_model.layers.3.linear_attn.A_log", "model.layers.3.linear_attn.A_log"),
        ("language_model.model.norm.weight", "model.norm.weight"),
        ("language_model.lm_head.weight", "lm_head.weight"),
        ("lm_head.weight", "lm_head.weight"),
        ("layers.0.input_layernorm.weight", "model.layers.0.input_layernorm.weight"),
        ("norm.weight", "model.norm.weight"),
        ("embed_tokens", "model.embed_tokens"),
        ("model.visual.blocks.0.norm1.weight", None),
        ("visual.patch_embed.proj.weight", None),
        ("mtp.fc.weight", None),
        ("model.layers.0.self_attn.rotary_emb.inv_freq", None),
        ("something.else", "something.else"),
    ],
)
def test_normalise(stored: str, normal: str | None) -> None:
    assert normalise(stored) == normal


@pytest.mark.parametrize(
    "stored",
    [
        "model.layers.1.mlp.up_proj",
        "model.language_model.layers.1.mlp.up_proj",
        "language_model.model.layers.1.mlp.up_proj",
        "layers.1.mlp.up_proj",
    ],
)
def test_spell_like_undoes_normalise(stored: str) -> None:
    module = normalise(stored)
    assert module is not None
    assert spell_like(module, stored.replace(".1.", ".7.")) == stored
    assert spell_like("lm_head", "model.layers.0.mlp.up_proj") == "lm_head"


def test_check_names_the_first_difference() -> None:
    config = ModelConfig.from_hf(tiny_model("qwen2", layers=1, tied=False).config.to_dict())
    good = parameter_shapes(config)
    check_parameters(config, good, "here")
    norm = "model.norm.weight"
    with pytest.raises(CheckpointError, match=r"here: tensor model\.norm\.weight is missing"):
        check_parameters(config, {k: v for k, v in good.items() if k != norm}, "here")
    with pytest.raises(CheckpointError, match=r"model\.norm\.weight has shape \[65\].*\[64\]"):
        check_parameters(config, good | {norm: (65,)}, "here")
    with pytest.raises(CheckpointError, match=r"norm\.bias is unknown"):
        check_parameters(config, good | {"model.norm.bias": (64,)}, "here")
    with pytest.raises(CheckpointError, match="isn't tied"):
        check_parameters(config, {k: v for k, v in good.items() if k != "lm_head.weight"}, "here")
