"""Gradients through the forest against PEFT on transformers' model, prompt by prompt."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import PreTrainedModel

from readoff.kernels.dispatch import use
from readoff.learn.lora import Lora
from readoff.learn.passes import Line
from tests import models
from tests.adapters import quiet
from tests.engine.models_on_disk import save_decider

from .rig import example, gradients, lines_of, load, randomise

ROWS = [
    example("Paid twice, and nobody answers.", weight={"route": 1.0, "angry": 0.5, "due": 2.0}),
    example(["First part of it.", {"then": "more"}], weight=0.5),
    example("x"),
]


def peft_model(model: PreTrainedModel, lora: Lora) -> PeftModel:
    """`model` with the same pairs, under PEFT."""
    config = LoraConfig(r=lora.rank, lora_alpha=lora.alpha, target_modules=list(lora.targets))
    with quiet():
        wrapped = get_peft_model(model, config)
    known = dict(wrapped.named_parameters())
    with torch.no_grad():
        for name, a, b in lora.pairs():
            known[f"base_model.model.{name}.lora_A.default.weight"].copy_(a)
            known[f"base_model.model.{name}.lora_B.default.weight"].copy_(b)
    return wrapped


def naive(wrapped: PeftModel, lora: Lora, groups: list[list[Line]]) -> dict[str, torch.Tensor]:
    """The gradients by autograd of the loss as it is written, one prompt at a time."""
    lines = [line for group in groups for line in group]
    total = sum(line.weight for line in lines)
    for line in lines:
        ids = [index for piece in line.pieces for index in piece]
        z = wrapped(torch.tensor([ids])).logits[0, -1, list(line.labels)]
        t, p = torch.tensor(line.target), F.softmax(z, -1)
        loss = -(t * p.log()).sum() + 0.5 * ((p - t) ** 2).sum()
        (loss * line.weight / total).backward()
    found = {}
    known = dict(wrapped.named_parameters())
    for name, _, _ in lora.pairs():
        for letter in "AB":
            grad = known[f"base_model.model.{name}.lora_{letter}.default.weight"].grad
            assert grad is not None
            found[f"{name}.{letter}"] = grad
    return found


def assert_near(
    found: dict[str, torch.Tensor], wanted: dict[str, torch.Tensor], bound: float
) -> None:
    assert found.keys() == wanted.keys()
    for name, value in wanted.items():
        assert value.norm() > 0.0, name
        assert (found[name] - value).norm() <= bound * value.norm(), name


@pytest.mark.parametrize("architecture", models.ARCHITECTURES)
def test_gradients_are_those_of_peft(architecture: models.Architecture, tmp_path: Path) -> None:
    model = save_decider(tmp_path, architecture)
    backbone, renderer = load(tmp_path)
    targets = ("in_proj_a", "in_proj_b") if architecture == "qwen3_5" else ()
    usual = Lora(load(tmp_path)[0]).targets
    lora = Lora(backbone, (*usual, *targets), rank=3, alpha=5.0)
    randomise(lora)
    groups = lines_of(renderer, ROWS)
    wanted = naive(peft_model(model, lora), lora, groups)
    assert_near(gradients(backbone, lora, groups), wanted, 1e-4)


def test_where_a_batch_is_cut_does_not_matter(tmp_path: Path) -> None:
    save_decider(tmp_path, "qwen3_5")
    backbone, renderer = load(tmp_path)
    lora = Lora(backbone, rank=2)
    randomise(lora)
    groups = lines_of(renderer, ROWS)
    whole = gradients(backbone, lora, groups)
    assert_near(gradients(backbone, lora, groups, limit=1), whole, 1e-4)


def test_no_gradient_of_the_base_is_kept(tmp_path: Path) -> None:
    save_decider(tmp_path, "qwen2")
    backbone, renderer = load(tmp_path)
    lora = Lora(backbone, rank=2)
    gradients(backbone, lora, lines_of(renderer, ROWS))
    mine = set(map(id, lora.parameters()))
    others = [p for p in backbone.parameters() if id(p) not in mine]
    assert others
    assert all(p.grad is None and not p.requires_grad for p in others)


@pytest.mark.parametrize("architecture", ["qwen2", "qwen3_5"])
def test_fast_operators_have_the_gradients_of_the_references(
    architecture: models.Architecture, tmp_path: Path
) -> None:
    save_decider(tmp_path, architecture)
    backbone, renderer = load(tmp_path)
    lora = Lora(backbone, rank=2)
    randomise(lora)
    groups = lines_of(renderer, ROWS)
    found = gradients(backbone, lora, groups)
    with use("reference", "tree_attention", "rms_norm", "add_rms_norm", "swiglu"):
        wanted = gradients(backbone, lora, groups)
    assert_near(found, wanted, 1e-4)
