"""What a merged folder holds besides its weights, for every kind of base."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoTokenizer

from readoff.engine.answers import NoulAnswer
from readoff.engine.card import Card
from readoff.engine.card_fields import Digests, Temperature
from readoff.engine.checkpoint import open_checkpoint
from readoff.engine.engine import Engine
from readoff.engine.lora import AdaptedCheckpoint
from readoff.export.merge import merge
from tests import tokenizers
from tests.adapters import edit_adapter, quiet, save_adapter
from tests.checkpoints import assert_same, contents
from tests.engine.models_on_disk import ASKED, CHATML, STATE
from tests.export.merging import GGUF_TOKENIZER, apart, case, load, logits
from tests.gguf_files import write_gguf
from tests.models import save_multimodal, tiny_model


def test_the_files(tmp_path: Path) -> None:
    made = case(tmp_path, "qwen2")
    (made.base / "chat_template.jinja").write_text(CHATML)
    (made.base / "generation_config.json").write_text('{"temperature": 0.7}')
    (made.base / "LICENSE").write_text("free")
    (made.base / "training_args.bin").write_text("not the model's")
    merged = made.merge()
    names = {"config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"}
    names |= {"chat_template.jinja", "generation_config.json", "LICENSE"}
    names |= {"decision.json"}
    assert {path.name for path in made.out.iterdir()} == names
    for name in ("generation_config.json", "LICENSE", "chat_template.jinja", "tokenizer.json"):
        assert (made.out / name).read_bytes() == (made.base / name).read_bytes()
    assert str(tmp_path) not in (made.out / "decision.json").read_text()
    assert merged.notes == ()
    tokenizer = AutoTokenizer.from_pretrained(made.out)
    assert tokenizer.decode(tokenizer.encode("two words")) == "two words"


def test_digests_of_base_adapters_and_result(tmp_path: Path) -> None:
    pair = [{"target_modules": ["q_proj"]}, {"target_modules": ["v_proj"]}]
    made = case(tmp_path, "qwen2", pair)
    merged = made.merge(max_shard_size=100_000)
    alone = [AdaptedCheckpoint(open_checkpoint(made.base), folder) for folder in made.adapters]
    told = json.loads((made.out / "decision.json").read_text())["made_from"]
    assert told["base"] == {"name": "base", "digest": open_checkpoint(made.base).digest()}
    assert told["adapters"] == [
        {"name": f"adapter{n}", "digest": one.adapter_digest()} for n, one in enumerate(alone)
    ]
    result = open_checkpoint(made.out)
    assert told["result"]["digest"] == result.weights_digest() == merged.digest
    card = Card.load(made.out)
    assert card.digests.weights == merged.digest
    assert card.digests.adapter is None
    with Engine.from_pretrained(made.out, dtype="fp32", threads=1) as engine:
        assert card.digests.tokenizer == engine.renderer.tokenizer.digest
        assert card.template.digest == engine.renderer.template.digest
    assert made.merge(force=True).digest != merged.digest  # one file, not seven


def test_a_merge_is_reproducible(tmp_path: Path) -> None:
    made = case(tmp_path, "qwen3_5")
    first = made.merge()
    files = {path.name: path.read_bytes() for path in made.out.iterdir()}
    assert made.merge(force=True) == first
    assert {path.name: path.read_bytes() for path in made.out.iterdir()} == files


def test_the_card_of_the_adapter_comes_along(tmp_path: Path) -> None:
    made = case(tmp_path, "qwen2")
    digest = AdaptedCheckpoint(open_checkpoint(made.base), made.adapters[0]).adapter_digest()
    fitted = Card(temperature=Temperature(noul=3.0), digests=Digests(adapter=digest))
    fitted.save(made.adapters[0])
    made.merge()
    assert Card.load(made.out).temperature.noul == 3.0
    answers = []
    for source, adapter in ((made.base, made.adapters[0]), (made.out, None)):
        with Engine.from_pretrained(source, adapter=adapter, dtype="fp32", threads=1) as engine:
            answer = engine.decide(STATE, ASKED)["refund"]
            assert isinstance(answer, NoulAnswer)
            answers.append(answer.noul)
    assert answers[1] == pytest.approx(answers[0], abs=1e-5)
    Card(temperature=Temperature(noul=7.0)).save(tmp_path / "other.json")
    made.merge(force=True, card=tmp_path / "other.json")
    assert Card.load(made.out).temperature.noul == 7.0


def test_the_card_of_one_adapter_is_not_that_of_two(tmp_path: Path) -> None:
    pair = [{"target_modules": ["q_proj"]}, {"target_modules": ["v_proj"]}]
    made = case(tmp_path, "qwen2", pair)
    digest = AdaptedCheckpoint(open_checkpoint(made.base), made.adapters[0]).adapter_digest()
    Card(temperature=Temperature(noul=3.0), digests=Digests(adapter=digest)).save(made.adapters[0])
    merged = made.merge()
    assert "no decision card" in merged.notes[0]
    assert Card.load(made.out).temperature.noul == 1.0


def test_the_tokenizer_of_the_adapter_wins(tmp_path: Path) -> None:
    """As it does where adapter and base are loaded together."""
    made = case(tmp_path, "qwen2")
    tokenizers.save_tiny(made.adapters[0], CHATML.replace("assistant", "judge"))
    made.merge()
    assert "judge" in (made.out / "tokenizer_config.json").read_text()


@pytest.mark.parametrize("tied", [True, False])
def test_a_multimodal_base_gives_a_text_model(tmp_path: Path, tied: bool) -> None:
    model = tiny_model("qwen3_5", tied=tied, max_position_embeddings=2048)
    save_multimodal(tmp_path / "base", model, tied=tied)
    tokenizers.save_tiny(tmp_path / "base", CHATML)
    adapted = save_adapter(tmp_path / "adapter", model, target_modules="all-linear")

    def longer(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        renamed = {
            key.replace("base_model.model.model.", "base_model.model.model.language_model."): value
            for key, value in tensors.items()
        }
        vision = "base_model.model.model.visual.blocks.0.attn.qkv.lora_A.weight"
        return renamed | {vision: torch.randn(4, 12)}

    edit_adapter(tmp_path / "adapter", longer)
    config = json.loads((tmp_path / "base" / "config.json").read_text())
    config["text_config"] |= {"mtp_num_hidden_layers": 1}
    config |= {"eos_token_id": 257, "image_token_id": 300}
    (tmp_path / "base" / "config.json").write_text(json.dumps(config))

    merged = merge(tmp_path / "base", [tmp_path / "adapter"], tmp_path / "out", progress=False)
    assert merged.left_out == (
        "multi-token prediction (2 tensors)",
        "vision tower (1 tensor)",
        "of adapter: vision tower (1 tensor)",
    )
    written = json.loads((tmp_path / "out" / "config.json").read_text())
    assert written["model_type"] == "qwen3_5_text"
    assert written["architectures"] == ["Qwen3_5ForCausalLM"]
    assert written["eos_token_id"] == 257
    assert not [name for name in written if "mtp" in name or "vision" in name or "image" in name]
    loaded = load(tmp_path / "out")
    assert type(loaded).__name__ == "Qwen3_5ForCausalLM"
    assert apart(logits(loaded), logits(adapted)) <= 1e-5


def test_a_config_that_says_tied_over_a_head_of_its_own(tmp_path: Path) -> None:
    """Such files mean an untied head; the folder written says so."""
    made = case(tmp_path, "qwen2", tied=False)
    file = made.base / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"tie_word_embeddings": True}))
    merged = made.merge()
    assert not json.loads((made.out / "config.json").read_text())["tie_word_embeddings"]
    assert not merged.untied  # it was untied before
    assert "lm_head.weight" in load_file(made.out / "model.safetensors")


def test_both_spellings_of_the_dtype(tmp_path: Path) -> None:
    made = case(tmp_path, "qwen2")
    file = made.base / "config.json"
    fields = json.loads(file.read_text())
    del fields["dtype"]
    file.write_text(json.dumps(fields | {"torch_dtype": "float32"}))
    made.merge(dtype=torch.bfloat16)
    written = json.loads((made.out / "config.json").read_text())
    assert written["torch_dtype"] == "bfloat16"
    assert "dtype" not in written


def test_a_base_without_the_causal_class(tmp_path: Path) -> None:
    """Saved as the bare decoder: its names lack a prefix, its config names another class."""
    made = case(tmp_path, "qwen3")
    file = made.base / "model.safetensors"
    tensors = {name.removeprefix("model."): value for name, value in load_file(file).items()}
    save_file(tensors, file, metadata={"format": "pt"})
    config = json.loads((made.base / "config.json").read_text()) | {"architectures": ["Qwen3Model"]}
    (made.base / "config.json").write_text(json.dumps(config))
    made.merge()
    assert load(made.out).config.architectures == ["Qwen3ForCausalLM"]


# ---- GGUF


@pytest.mark.parametrize("architecture", ["qwen2", "qwen3"])
@pytest.mark.parametrize(("kind", "dtype"), [("Q8_0", "bfloat16"), ("F16", "float16")])
def test_a_gguf_file_becomes_a_folder(
    tmp_path: Path, architecture: Any, kind: str, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("READOFF_CACHE", str(tmp_path / "cache"))
    model = tiny_model(architecture, max_position_embeddings=2048)
    file = tmp_path / "m.gguf"
    write_gguf(file, model, default=kind, metadata=GGUF_TOKENIZER)
    merged = merge(file, [], tmp_path / "out", progress=False)
    assert merged.dtype == dtype
    assert merged.dequantised == ("Q8_0" if kind == "Q8_0" else None)
    exact = contents(open_checkpoint(file))
    narrow = getattr(torch, dtype)
    assert_same(
        contents(open_checkpoint(tmp_path / "out")),
        {name: value.to(narrow).float() for name, value in exact.items()},
    )
    config = load(tmp_path / "out").config
    assert (config.eos_token_id, config.bos_token_id) == (264, None)
    again = merge(file, [], tmp_path / "out", progress=False, force=True, dtype=torch.float32)
    assert again.difference is not None
    assert again.difference.logit == 0.0
    with torch.no_grad():
        model.load_state_dict(exact, strict=False)
        assert apart(logits(load(tmp_path / "out")), logits(model)) <= 1e-5
    with quiet():
        assert AutoTokenizer.from_pretrained(tmp_path / "out").encode("True<|im_end|>") == [
            258,
            264,
        ]


def test_an_adapter_on_a_gguf_file_of_plain_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("READOFF_CACHE", str(tmp_path / "cache"))
    model = tiny_model("qwen2", max_position_embeddings=2048)
    write_gguf(tmp_path / "m.gguf", model, metadata=GGUF_TOKENIZER)
    adapted = save_adapter(tmp_path / "adapter", model, target_modules="all-linear")
    merge(tmp_path / "m.gguf", [tmp_path / "adapter"], tmp_path / "out", progress=False)
    assert apart(logits(load(tmp_path / "out")), logits(adapted)) <= 1e-5


def test_an_adapter_as_the_source(tmp_path: Path) -> None:
    made = case(tmp_path, "qwen2")
    file = made.adapters[0] / "adapter_config.json"
    file.write_text(
        json.dumps(json.loads(file.read_text()) | {"base_model_name_or_path": str(made.base)})
    )
    merged = merge(made.adapters[0], [], tmp_path / "one", progress=False)
    assert merged.digest == made.merge().digest
