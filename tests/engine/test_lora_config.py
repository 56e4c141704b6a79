"""adapter_config.json: scales, PEFT's matching rules, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
from peft import LoraConfig as PeftConfig
from peft.tuners.tuners_utils import check_target_module_exists

from readoff.engine.errors import AdapterError
from readoff.engine.lora_config import LoraConfig

BASE: dict[str, Any] = {
    "peft_type": "LORA",
    "r": 8,
    "lora_alpha": 16,
    "target_modules": ["q_proj", "v_proj"],
}
Q0, V1 = "model.layers.0.self_attn.q_proj", "model.layers.1.self_attn.v_proj"


def read(**changes: Any) -> LoraConfig:
    return LoraConfig.from_dict(BASE | changes, "adapter_config.json")


def test_scale() -> None:
    assert read().scale_of(Q0) == 2.0
    assert read(use_rslora=True).scale_of(Q0) == pytest.approx(16 / 8**0.5)
    assert read(lora_alpha=0).scale_of(Q0) == 0.0


def test_patterns_are_matched_from_the_end() -> None:
    config = read(
        rank_pattern={"layers.1.self_attn.v_proj": 2, "q_pro.": 4, "q_proj": 5},
        alpha_pattern={r"layers\.\d+\.self_attn\.q_proj": 3},
        use_rslora=True,
    )
    assert (config.rank_of(Q0), config.rank_of(V1)) == (4, 2)
    assert config.rank_of("model.layers.0.self_attn.k_proj") == 8
    assert config.rank_of("model.layers.0.mlp.xq_proj") == 8
    assert config.scale_of(Q0) == pytest.approx(3 / 2)
    assert config.scale_of(V1) == pytest.approx(16 / 2**0.5)


MODULES = [
    *(
        f"model.layers.{layer}.{name}"
        for layer in (0, 1, 11)
        for name in ("self_attn.q_proj", "self_attn.v_proj", "mlp.up_proj", "linear_attn.out_proj")
    ),
    "model.embed_tokens",
    "lm_head",
]


@pytest.mark.parametrize(
    "options",
    [
        {"target_modules": ["q_proj", "lm_head"]},
        {"target_modules": ["proj"]},
        {"target_modules": ["layers.1.mlp.up_proj", "model.embed_tokens"]},
        {"target_modules": r".*\.layers\.1\d?\.(self_attn|mlp)\..*_proj"},
        {"target_modules": r"q_proj"},
        {"target_modules": ["q_proj"], "layers_to_transform": [0, 11]},
        {"target_modules": ["q_proj", "lm_head"], "layers_to_transform": 1},
        {"target_modules": ["q_proj"], "layers_to_transform": [1], "layers_pattern": "layers"},
        {"target_modules": ["q_proj"], "layers_to_transform": [1], "layers_pattern": ["h"]},
        {"target_modules": ["model.layers.0.mlp.up_proj"], "layers_to_transform": [1]},
        {"target_modules": ["q_proj", "up_proj"], "exclude_modules": ["layers.0.mlp.up_proj"]},
        {"target_modules": ["q_proj", "up_proj"], "exclude_modules": r".*layers\.1\..*"},
        {"target_modules": ["lm_head", "q_proj"], "modules_to_save": ["lm_head", "layers.1"]},
    ],
)
def test_targets_are_those_of_peft(options: dict[str, Any]) -> None:
    ours, theirs = read(**options), PeftConfig(**options)
    expected = []
    for module in MODULES:
        found = check_target_module_exists(theirs, module)
        if found and "Excluded" not in type(found).__name__:
            expected.append(module)
    assert [module for module in MODULES if ours.targets(module)] == expected


def test_all_linear_leaves_out_embedding_and_head() -> None:
    config = read(target_modules="all-linear")
    assert [module for module in MODULES if not config.targets(module)] == MODULES[-2:]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"peft_type": "IA3"}, "'IA3'"),
        ({"peft_type": None}, "peft_type"),
        ({"use_dora": True}, "DoRA"),
        ({"use_qalora": True}, "QALoRA"),
        ({"lora_bias": True}, "lora_bias"),
        ({"fan_in_fan_out": True}, "fan_in_fan_out"),
        ({"trainable_token_indices": [1]}, "trainable tokens"),
        ({"target_parameters": ["experts"]}, "target_parameters"),
        ({"layer_replication": [[0, 2]]}, "replication"),
        ({"alora_invocation_tokens": [1]}, "activated"),
        ({"bias": "all"}, "'all'"),
        ({"bias": "lora_only"}, "'lora_only'"),
        ({"init_lora_weights": "pissa_niter_4"}, "pissa_niter_4.*Convert"),
        ({"r": 0}, "rank"),
        ({"r": "8"}, "'8'"),
        ({"r": None}, "rank"),
        ({"rank_pattern": {"q_proj": -1}}, "-1"),
        ({"rank_pattern": ["q_proj"]}, "rank_pattern"),
        ({"lora_alpha": float("nan")}, "lora_alpha"),
        ({"lora_alpha": True}, "lora_alpha"),
        ({"alpha_pattern": {"(": 1}}, "pattern"),
        ({"target_modules": None}, "target_modules"),
        ({"target_modules": "*"}, "pattern"),
        ({"target_modules": [3]}, "target_modules"),
        ({"layers_to_transform": ["1"]}, "layers_to_transform"),
        ({"base_model_name_or_path": 7}, "base_model_name_or_path"),
    ],
)
def test_refuses(change: dict[str, Any], message: str) -> None:
    with pytest.raises(AdapterError, match=message):
        read(**change)
