"""A saved adapter: the same numbers in PEFT, in the engine and where it was trained."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import pytest
import torch
from peft import LoraConfig, PeftModel
from safetensors.torch import load_file

from readoff.engine.card import Card
from readoff.engine.card_fields import CardTemplate
from readoff.engine.engine import Engine
from readoff.engine.source import resolve
from readoff.learn.adapter import adapter_config, save_adapter, save_config, save_labels
from readoff.learn.errors import TrainingError
from readoff.learn.lora import Lora
from readoff.learn.passes import passes
from readoff.learn.settings import Stored
from readoff.learn.validation import rounded
from tests import models
from tests.adapters import quiet
from tests.engine.models_on_disk import ASKED, STATE, save_decider

from .rig import example, lines_of, load, randomise


def save(folder: Path, lora: Lora, base: Path, stored: Stored = "fp32") -> int:
    folder.mkdir()
    save_config(folder, adapter_config(lora, str(base)))
    save_labels(folder, Card.default())
    return save_adapter(folder, lora, stored)


@pytest.mark.parametrize("architecture", models.ARCHITECTURES)
def test_peft_and_the_engine_read_what_was_trained(
    architecture: models.Architecture, tmp_path: Path
) -> None:
    model = save_decider(tmp_path / "base", architecture)
    backbone, renderer = load(tmp_path / "base")
    lora = Lora(backbone, rank=3, alpha=5.0)
    randomise(lora)
    save(tmp_path / "adapter", lora, tmp_path / "base")
    (group,) = lines_of(renderer, [example(STATE)])
    (part,) = passes([group], 10_000)
    with torch.no_grad():
        own = backbone.readout(backbone(part.batch), part.batch).logits.split(
            [len(line.labels) for line in group]
        )
        with quiet():
            peft = PeftModel.from_pretrained(model, tmp_path / "adapter")
        for line, logits in zip(group, own, strict=True):
            ids = [index for piece in line.pieces for index in piece]
            theirs = peft(torch.tensor([ids])).logits[0, -1, list(line.labels)]
            torch.testing.assert_close(logits, theirs, rtol=1e-4, atol=1e-4)
    asked = group[0].example.questions
    for source, adapter in (("base", "adapter"), ("adapter", None)):
        path = None if adapter is None else tmp_path / adapter
        with Engine.from_pretrained(tmp_path / source, adapter=path, dtype="fp32") as engine:
            decision = engine.decide(STATE, asked)
        for answer, logits in zip(decision.values(), own, strict=True):
            served = torch.tensor(list(answer.logits.values()))
            torch.testing.assert_close(logits, served, rtol=1e-4, atol=1e-4)


def test_a_fresh_adapter_changes_nothing(tmp_path: Path) -> None:
    save_decider(tmp_path / "base")
    backbone, _ = load(tmp_path / "base")
    save(tmp_path / "adapter", Lora(backbone), tmp_path / "base")
    with Engine.from_pretrained(tmp_path / "base", dtype="fp32") as engine:
        plain = engine.decide(STATE, ASKED)
    with Engine.from_pretrained(tmp_path / "adapter", dtype="fp32") as engine:
        adapted = engine.decide(STATE, ASKED)
    assert {k: a.logits for k, a in plain.items()} == {k: a.logits for k, a in adapted.items()}


@pytest.mark.parametrize(("stored", "width"), [("fp16", 2), ("bf16", 2), ("fp32", 4)])
def test_size_and_rounding(stored: Stored, width: int, tmp_path: Path) -> None:
    save_decider(tmp_path / "base")
    lora = Lora(load(tmp_path / "base")[0], rank=4)
    randomise(lora)
    size = save(tmp_path / "adapter", lora, tmp_path / "base", stored)
    file = tmp_path / "adapter" / "adapter_model.safetensors"
    assert size == file.stat().st_size
    assert 0 < size - width * lora.size < 10_000  # names and shapes
    tensors = load_file(file)
    before = [matrix.clone() for matrix in lora.parameters()]
    with rounded(lora, tensors[next(iter(tensors))].dtype):
        for name, a, b in lora.pairs():
            assert torch.equal(tensors[f"base_model.model.{name}.lora_A.weight"].float(), a)
            assert torch.equal(tensors[f"base_model.model.{name}.lora_B.weight"].float(), b)
    assert all(map(torch.equal, before, lora.parameters()))


def test_equal_adapters_are_equal_files(tmp_path: Path) -> None:
    save_decider(tmp_path / "base")
    for name in ("one", "two"):
        save(tmp_path / name, Lora(load(tmp_path / "base")[0], seed=3), tmp_path / "base")
    for file in ("adapter_config.json", "adapter_model.safetensors", "label_space.json"):
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "two" / file).read_bytes()
    modules = json.loads((tmp_path / "one" / "adapter_config.json").read_text())["target_modules"]
    assert modules == sorted(modules)
    assert len(modules) == 7


def test_the_config_is_as_peft_writes_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No temporary folder is needed for it: there may be no room for one."""
    save_decider(tmp_path / "base")
    lora = Lora(load(tmp_path / "base")[0], ["v_proj", "q_proj"], rank=3, alpha=5.5)
    with monkeypatch.context() as patch:
        patch.setattr(tempfile, "tempdir", str(tmp_path / "none"))
        made = adapter_config(lora, "some/base", "v1")
    with quiet():
        LoraConfig(**made).save_pretrained(str(tmp_path / "adapter"))
    written = json.loads((tmp_path / "adapter" / "adapter_config.json").read_text())
    written["target_modules"].sort()
    assert json.loads(json.dumps(made)) == written
    assert list(made) == sorted(made)
    assert (made["revision"], made["lora_alpha"]) == ("v1", 5.5)


def test_a_number_that_the_dtype_cannot_hold(tmp_path: Path) -> None:
    save_decider(tmp_path / "base")
    lora = Lora(load(tmp_path / "base")[0], ["q_proj"])
    with torch.no_grad():
        lora.parameters()[0][0, 0] = 1e6
    with pytest.raises(TrainingError, match=r"layers\.0\.self_attn\.q_proj\.lora_A .* fp16"):
        save(tmp_path / "adapter", lora, tmp_path / "base", "fp16")
    assert not (tmp_path / "adapter" / "adapter_model.safetensors").exists()


def test_an_unusual_order_of_the_prompt_goes_with_the_adapter(tmp_path: Path) -> None:
    save_decider(tmp_path / "base")
    lora = Lora(load(tmp_path / "base")[0])
    save(tmp_path / "adapter", lora, tmp_path / "base")
    (tmp_path / "adapter" / "label_space.json").unlink()
    save_labels(tmp_path / "adapter", Card(template=CardTemplate(order="question-first")))
    with Engine.from_pretrained(resolve(tmp_path / "adapter").folders[0], dtype="fp32") as engine:
        assert engine.renderer.template.order == "question-first"
