"""Merged adapters against PEFT: its merged weights, and its unmerged forward for tied heads."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import PreTrainedModel

from readoff.engine.checkpoint import Checkpoint, open_checkpoint
from readoff.engine.errors import AdapterError
from readoff.engine.lora import AdaptedCheckpoint
from tests.adapters import Tensors, edit_adapter, quiet, save_adapter
from tests.checkpoints import assert_close, assert_same, contents
from tests.models import Architecture, save_multimodal, save_tiny, tiny_model

ALL_HYBRID = [f"in_proj_{name}" for name in ("qkv", "z", "a", "b")] + [
    f"{name}_proj" for name in ("out", "q", "k", "v", "o", "gate", "up", "down")
]


def adapted(
    folder: Path, architecture: Architecture, tied: bool, **options: Any
) -> tuple[Checkpoint, Any]:
    """An adapted checkpoint and PEFT's unmerged model of the same adapter."""
    base = save_tiny(folder / "base", architecture, tied=tied)
    model = save_adapter(folder / "adapter", base, **options)
    return AdaptedCheckpoint(open_checkpoint(folder / "base"), folder / "adapter"), model


def merged(model: Any) -> PreTrainedModel:
    with quiet():
        result: PreTrainedModel = model.merge_and_unload()
    return result


@pytest.mark.parametrize(
    ("architecture", "options"),
    [
        ("qwen2", {"target_modules": ["q_proj", "down_proj"]}),
        ("qwen2", {"target_modules": "all-linear", "use_rslora": True, "r": 3}),
        ("qwen3", {"target_modules": r".*layers\.[12]\..*(q|o|up)_proj"}),
        ("qwen3", {"target_modules": ["v_proj"], "layers_to_transform": [0, 3]}),
        ("qwen3_5", {"target_modules": ALL_HYBRID}),
        ("qwen3_5", {"target_modules": "all-linear", "lora_alpha": 32, "r": 16}),
        (
            "qwen3_5",
            {
                "target_modules": ["in_proj_qkv", "q_proj", "up_proj"],
                "rank_pattern": {"layers.0.linear_attn.in_proj_qkv": 2, "up_proj": 7},
                "alpha_pattern": {r"q_proj": 3},
                "use_rslora": True,
            },
        ),
    ],
)
def test_equals_peft_merged(
    tmp_path: Path, architecture: Architecture, options: dict[str, Any]
) -> None:
    checkpoint, model = adapted(tmp_path, architecture, True, **options)
    adapters = sum("lora_A" in name for name, _ in model.named_parameters())
    found = contents(checkpoint)
    assert_close(found, dict(merged(model).named_parameters()))
    base = contents(open_checkpoint(tmp_path / "base"))
    assert sum(not torch.equal(found[name], base[name]) for name in base) == adapters


def test_untied_head_and_embedding_and_saved_norms(tmp_path: Path) -> None:
    checkpoint, model = adapted(
        tmp_path,
        "qwen2",
        False,
        target_modules=["embed_tokens", "lm_head", "k_proj"],
        modules_to_save=["input_layernorm", "norm"],
    )
    assert_close(contents(checkpoint), dict(merged(model).named_parameters()))


def test_saved_linear_with_its_bias_and_a_saved_layer(tmp_path: Path) -> None:
    checkpoint, model = adapted(
        tmp_path,
        "qwen2",
        True,
        target_modules=["q_proj"],
        modules_to_save=["layers.1.self_attn.v_proj", "layers.2"],
    )
    assert_close(contents(checkpoint), dict(merged(model).named_parameters()))


@pytest.mark.parametrize(
    "options",
    [
        {"target_modules": ["q_proj", "lm_head"]},
        {"target_modules": ["embed_tokens"]},
        {"target_modules": ["embed_tokens", "lm_head"]},
        {"target_modules": ["embed_tokens"], "ensure_weight_tying": True},
        {"target_modules": ["q_proj"], "modules_to_save": ["embed_tokens"]},
        {"target_modules": ["q_proj"], "modules_to_save": ["lm_head"]},
        {
            "target_modules": ["q_proj"],
            "modules_to_save": ["embed_tokens"],
            "ensure_weight_tying": True,
        },
    ],
)
def test_a_tied_head_is_what_it_was_in_training(tmp_path: Path, options: dict[str, Any]) -> None:
    """The unmerged forward is the judge: PEFT itself merges into both names of a tied matrix."""
    checkpoint, model = adapted(tmp_path, "qwen2", True, **options)
    assert not checkpoint.config.tie_word_embeddings
    assert "lm_head.weight" in checkpoint.names()
    untied = tiny_model("qwen2", tied=False)
    untied.load_state_dict(contents(checkpoint))
    ids = torch.arange(5, 45).unsqueeze(0)
    with torch.no_grad():
        torch.testing.assert_close(untied(ids).logits, model(ids).logits, rtol=1e-4, atol=1e-4)


def test_adapters_stack_without_rounding_in_between(tmp_path: Path) -> None:
    base = save_tiny(tmp_path / "base", "qwen2", dtype=torch.bfloat16)
    first = save_adapter(tmp_path / "one", base.float(), target_modules=["q_proj", "up_proj"])
    middle = merged(first)
    second = save_adapter(tmp_path / "two", middle, target_modules=["q_proj", "lm_head"], seed=1)
    one = AdaptedCheckpoint(open_checkpoint(tmp_path / "base"), tmp_path / "one")
    two = AdaptedCheckpoint(one, tmp_path / "two")
    name = "model.layers.0.self_attn.q_proj.weight"
    expected = merged(second).get_parameter(name)
    torch.testing.assert_close(contents(two)[name], expected, rtol=1e-6, atol=1e-6)
    rounded = contents(two, torch.bfloat16)[name]
    assert (rounded != contents(two)[name].bfloat16()).sum() == 0
    assert two.folders == (tmp_path / "two", tmp_path / "one", tmp_path / "base")
    assert len({two.digest(), one.digest(), one.base.digest()}) == 3
    assert two.weights_digest() == one.base.digest()
    assert len({two.adapter_digest(), one.adapter_digest(), None}) == 3


def test_rounds_once_to_bf16(tmp_path: Path) -> None:
    checkpoint, _ = adapted(tmp_path, "qwen2", True, target_modules=["q_proj"])
    exact, rounded = contents(checkpoint), contents(checkpoint, torch.bfloat16)
    assert_same(rounded, {name: tensor.bfloat16() for name, tensor in exact.items()})


def test_a_multimodal_adapter_gives_its_text_part(tmp_path: Path) -> None:
    base = tiny_model("qwen3_5")
    save_multimodal(tmp_path / "base", base)
    model = save_adapter(tmp_path / "adapter", base, target_modules="all-linear")

    def longer(tensors: Tensors) -> Tensors:
        renamed = {
            key.replace("base_model.model.model.", "base_model.model.model.language_model."): value
            for key, value in tensors.items()
        }
        vision = "base_model.model.model.visual.blocks.0.attn.qkv.lora_A.weight"
        return renamed | {vision: torch.randn(4, 12)}

    edit_adapter(tmp_path / "adapter", longer)
    checkpoint = AdaptedCheckpoint(open_checkpoint(tmp_path / "base"), tmp_path / "adapter")
    assert_close(contents(checkpoint), dict(merged(model).named_parameters()))
    change_config(tmp_path / "adapter", target_modules=r"model\.language_model\..*_proj\w*")
    again = AdaptedCheckpoint(open_checkpoint(tmp_path / "base"), tmp_path / "adapter")
    assert_same(contents(again), contents(checkpoint))
    edit_adapter(tmp_path / "adapter", lambda t: {k: v for k, v in t.items() if "s.3." not in k})
    with pytest.raises(AdapterError, match=r"names model\.language_model\.layers\.3.*missing"):
        AdaptedCheckpoint(open_checkpoint(tmp_path / "base"), tmp_path / "adapter")


def test_tokenizer_of_the_adapter_wins_if_complete(tmp_path: Path) -> None:
    checkpoint, _ = adapted(tmp_path, "qwen2", True, target_modules=["q_proj"])
    assert checkpoint.tokenizer_files == tmp_path / "base"
    (tmp_path / "adapter" / "tokenizer.json").write_text("{}")
    assert checkpoint.tokenizer_files == tmp_path / "base"
    (tmp_path / "adapter" / "tokenizer_config.json").write_text("{}")
    assert checkpoint.tokenizer_files == tmp_path / "adapter"


# ---- refusals

A = "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight"
B = A.replace("lora_A", "lora_B")


def change_config(folder: Path, **changes: Any) -> None:
    file = folder / "adapter_config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))


def poisoned(tensors: Tensors, value: float) -> Tensors:
    tensors[B][3, 1] = value
    return tensors


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: poisoned(t, float("nan")), "finite"),
        (lambda t: poisoned(t, float("inf")), "finite"),
        (lambda t: t | {A: torch.zeros(4, 128)}, r"A \[4, 128\].*\[4, 64\]"),
        (lambda t: t | {B: torch.zeros(64, 5)}, r"B \[64, 5\]"),
        (lambda t: t | {A: torch.zeros(2, 64), B: torch.zeros(64, 2)}, "rank 4"),
        (lambda t: {k: v for k, v in t.items() if k != B}, "needs a lora_A and a lora_B"),
        (lambda t: {k: v for k, v in t.items() if "layers.0." not in k}, "tensors are missing"),
        (lambda t: {}, "no tensor"),
        (lambda t: t | {A.replace("q_proj", "k_proj"): torch.zeros(4, 64)}, "matches no module"),
        (
            lambda t: t | {A.replace("layers.0", "layers.9"): torch.zeros(4, 64)},
            "matches no module",
        ),
        (lambda t: t | {A.replace("base_model.model.", "x."): torch.zeros(4, 64)}, "no module"),
        (lambda t: t | {A.replace("lora_A.weight", "lora_magnitude_vector"): torch.ones(64)}, "no"),
        (lambda t: t | {B.replace("weight", "bias"): torch.zeros(64)}, "matches no module"),
        (
            lambda t: t | {"base_model.model.model.norm.weight": torch.ones(64)},
            "norm.weight matches no module",
        ),
        (
            lambda t: t | {"base_model.model.model.embed_tokens.weight": torch.ones(520, 64)},
            r"embed_tokens\.weight has shape \[520, 64\], the base \[512, 64\]",
        ),
        (lambda t: t | {A: torch.zeros(4, 64, dtype=torch.int8)}, "dtype I8"),
    ],
)
def test_tensors_that_do_not_fit(tmp_path: Path, change: Any, message: str) -> None:
    base = save_tiny(tmp_path / "base", "qwen2", layers=2)
    save_adapter(tmp_path / "adapter", base, target_modules=["q_proj"])
    AdaptedCheckpoint(open_checkpoint(tmp_path / "base"), tmp_path / "adapter")
    edit_adapter(tmp_path / "adapter", change)
    with pytest.raises(AdapterError, match=message):
        AdaptedCheckpoint(open_checkpoint(tmp_path / "base"), tmp_path / "adapter")


def test_an_adapter_for_another_base_names_it(tmp_path: Path) -> None:
    other = tiny_model("qwen2", hidden=128)
    save_adapter(tmp_path / "adapter", other, target_modules=["q_proj"])
    change_config(tmp_path / "adapter", base_model_name_or_path="someone/other-base")
    save_tiny(tmp_path / "base", "qwen2")
    with pytest.raises(AdapterError, match=r"someone/other-base.*belongs to"):
        AdaptedCheckpoint(open_checkpoint(tmp_path / "base"), tmp_path / "adapter")


def test_broken_adapter_folders(tmp_path: Path) -> None:
    base = save_tiny(tmp_path / "base", "qwen2", layers=1)
    checkpoint = open_checkpoint(tmp_path / "base")
    with pytest.raises(AdapterError, match="isn't an adapter folder"):
        AdaptedCheckpoint(checkpoint, tmp_path)
    folder = tmp_path / "adapter"
    save_adapter(folder, base, target_modules=["q_proj"])
    weights = folder / "adapter_model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-8])
    with pytest.raises(AdapterError, match="can't be read"):
        AdaptedCheckpoint(checkpoint, folder)
    weights.rename(folder / "adapter_model.bin")
    with pytest.raises(AdapterError, match="pickle"):
        AdaptedCheckpoint(checkpoint, folder)
    for text in ("{", "[]"):
        (folder / "adapter_config.json").write_text(text)
        with pytest.raises(AdapterError, match="adapter_config"):
            AdaptedCheckpoint(checkpoint, folder)


@pytest.mark.parametrize("feature", [{"use_dora": True}, {"bias": "all"}])
def test_features_that_are_not_lora(tmp_path: Path, feature: dict[str, Any]) -> None:
    base = save_tiny(tmp_path / "base", "qwen2", layers=1)
    save_adapter(tmp_path / "adapter", base, target_modules=["q_proj"], **feature)
    with pytest.raises(AdapterError, match="isn't supported"):
        AdaptedCheckpoint(open_checkpoint(tmp_path / "base"), tmp_path / "adapter")
