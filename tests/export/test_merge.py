"""Merged folders in transformers against PEFT's unmerged models."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from readoff.engine.checkpoint import open_checkpoint
from readoff.engine.engine import Engine
from readoff.engine.lora import AdaptedCheckpoint
from tests.adapters import quiet
from tests.checkpoints import assert_same, contents
from tests.engine.models_on_disk import ASKED, STATE
from tests.export.merging import apart, case, load, logits
from tests.models import Architecture

SAME = 1e-5
"""fp32 sums in another order, as a relative error."""


@pytest.mark.parametrize(
    ("architecture", "options"),
    [
        ("qwen2", {"target_modules": "all-linear"}),
        ("qwen2", {"target_modules": ["q_proj", "down_proj"], "use_rslora": True, "r": 3}),
        ("qwen3", {"target_modules": "all-linear", "use_rslora": True}),
        ("qwen3_5", {"target_modules": "all-linear"}),
        ("qwen3_5", {"target_modules": ["in_proj_qkv", "out_proj"], "modules_to_save": ["norm"]}),
    ],
)
@pytest.mark.parametrize("tied", [True, False])
def test_equals_peft_unmerged(
    tmp_path: Path, architecture: Architecture, options: dict[str, Any], tied: bool
) -> None:
    made = case(tmp_path, architecture, [options], tied=tied)
    merged = made.merge()
    expected = logits(made.unmerged())
    assert apart(logits(load(made.out)), expected) <= SAME
    assert apart(logits(load(made.base)), expected) > 1000 * SAME  # the adapter matters
    assert (merged.dtype, merged.untied, merged.files) == ("float32", False, 1)


@pytest.mark.parametrize(
    "options",
    [
        {"target_modules": ["q_proj", "lm_head"]},
        {"target_modules": ["embed_tokens"]},
        {"target_modules": ["embed_tokens", "lm_head"]},
        {"target_modules": ["q_proj"], "modules_to_save": ["lm_head"]},
    ],
)
def test_a_tied_head_that_an_adapter_unties(tmp_path: Path, options: dict[str, Any]) -> None:
    made = case(tmp_path, "qwen2", [options], tied=True)
    merged = made.merge()
    assert merged.untied
    loaded = load(made.out)
    assert not loaded.config.tie_word_embeddings
    assert apart(logits(loaded), logits(made.unmerged())) <= SAME
    assert merged.difference is not None
    assert merged.difference.logit <= SAME * merged.difference.largest_logit


def test_the_label_rows_are_those_of_the_adapted_head(tmp_path: Path) -> None:
    """What is read off is the merged head's rows, not the embedding's."""
    made = case(tmp_path, "qwen2", [{"target_modules": ["lm_head"]}], tied=True)
    made.merge()
    answers = []
    for source, adapter in ((made.base, made.adapters[0]), (made.out, None), (made.base, None)):
        with Engine.from_pretrained(source, adapter=adapter, dtype="fp32", threads=1) as engine:
            answer = engine.decide(STATE, ASKED)["team"]
            answers.append(torch.tensor([*answer.logits.values()]))
    assert apart(answers[1], answers[0]) <= SAME
    assert apart(answers[1], answers[2]) > 1000 * SAME


@pytest.mark.parametrize("architecture", ["qwen2", "qwen3_5"])
def test_two_adapters_in_order(tmp_path: Path, architecture: Architecture) -> None:
    pair = [
        {"target_modules": "all-linear", "use_rslora": True},
        {"target_modules": ["up_proj", "down_proj"], "r": 7, "lora_alpha": 20},
    ]
    made = case(tmp_path, architecture, pair)
    merged = made.merge()
    assert apart(logits(load(made.out)), logits(made.unmerged())) <= SAME
    assert [adapter.name for adapter in merged.adapters] == ["adapter0", "adapter1"]


def test_an_adapter_that_replaces_what_the_one_before_changed(tmp_path: Path) -> None:
    """Where order matters: a module trained in full wins over the change below it."""
    pair = [{"target_modules": ["k_proj"]}, {"target_modules": ["q_proj"]}]
    pair[1]["modules_to_save"] = ["k_proj"]
    made = case(tmp_path, "qwen2", pair)
    made.merge()
    name = "model.layers.0.self_attn.k_proj.weight"
    stored = load_file(made.adapters[1] / "adapter_model.safetensors")
    own = stored["base_model.model." + name]
    assert torch.equal(load_file(made.out / "model.safetensors")[name], own)


def test_bf16_is_the_exact_sum_rounded_once(tmp_path: Path) -> None:
    """Every weight is the nearest bf16 to the fp32 sum; so are the logits as near as PEFT's exact
    merge rounded, and nearer than PEFT's merge in bf16, which rounds twice."""
    made = case(tmp_path, "qwen2", [{"target_modules": "all-linear"}], dtype=torch.bfloat16)
    merged = made.merge(max_shard_size=100_000)
    assert (merged.dtype, merged.files > 3) == ("bfloat16", True)
    exact = contents(AdaptedCheckpoint(open_checkpoint(made.base), made.adapters[0]))
    rounded = contents(open_checkpoint(made.out))
    assert_same(rounded, {name: value.bfloat16().float() for name, value in exact.items()})

    expected = logits(made.unmerged())
    found = logits(load(made.out))
    with quiet():
        peft = made.unmerged().merge_and_unload()
    for parameter in peft.parameters():
        parameter.data = parameter.data.bfloat16().float()
    assert apart(found, logits(peft)) <= 1e-3  # a sum within half an ulp of fp32 may round apart
    with quiet():
        twice = made.unmerged().to(torch.bfloat16).merge_and_unload().float()
    assert apart(found, expected) < 0.9 * apart(logits(twice), expected)
    assert merged.difference is not None
    assert 0 < merged.difference.logit / merged.difference.largest_logit < 0.05


def test_each_tensor_keeps_its_dtype_or_gets_the_one_asked_for(tmp_path: Path) -> None:
    made = case(tmp_path, "qwen3_5", dtype=torch.bfloat16)
    file = made.base / "model.safetensors"
    tensors = load_file(file)
    wide = "model.layers.0.linear_attn.A_log"
    tensors[wide] = tensors[wide].float() * 1.001
    save_file(tensors, file, metadata={"format": "pt"})
    assert made.merge().dtype == "bfloat16"
    found = load_file(made.out / "model.safetensors")
    assert {name for name, value in found.items() if value.dtype != torch.bfloat16} == {wide}
    assert torch.equal(found[wide], tensors[wide])
    merged = made.merge(force=True, dtype=torch.float16)
    assert merged.dtype == "float16"
    found = load_file(made.out / "model.safetensors")
    assert {value.dtype for value in found.values()} == {torch.float16}
    assert load(made.out).config.dtype == torch.float32  # as asked for; see the file itself:
    assert '"float16"' in (made.out / "config.json").read_text()
