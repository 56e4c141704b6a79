"""`export_onnx`: what the pack holds, what is baked in, and adapters all the way through."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch

from readoff.engine.answers import Answer, NoulAnswer
from readoff.engine.card import Card
from readoff.engine.card_fields import Temperature
from readoff.engine.engine import Engine
from readoff.engine.questions import Question
from readoff.export.exported import Exported
from readoff.export.graph.options import FixedLabels, Flavour, LabelBank, Precision
from readoff.export.merge import merge
from readoff.export.onnx_export import Subject, export_onnx
from readoff.export.opening import open_engine
from readoff.export.pack import GRAPH, read_pack
from readoff.export.probes import question_probes
from readoff.export.session import GraphSession, LabelRows
from tests.engine.models_on_disk import ASKED, STATE, save_decider
from tests.export.exporting import QUESTION, exported
from tests.export.merging import GGUF_TOKENIZER, case, load
from tests.gguf_files import write_gguf
from tests.models import ARCHITECTURES, Architecture, tiny_model


def decided(source: Path, **options: Any) -> dict[str, list[float]]:
    """The probabilities of `ASKED` by whatever engine opens `source`."""
    with open_engine(source, threads=1, **options) as engine:
        decision = engine.decide(STATE, ASKED)
        return {name: shares(decision[name]) for name in ASKED}


def shares(answer: Answer) -> list[float]:
    if isinstance(answer, NoulAnswer):
        return [answer.noul, 1.0 - answer.noul]
    return list(answer.probabilities.values())


def apart(one: dict[str, list[float]], other: dict[str, list[float]]) -> float:
    return max(float(np.abs(np.subtract(one[name], other[name])).max()) for name in ASKED)


def size(made: Exported) -> int:
    return sum(path.stat().st_size for path in made.out.glob(f"{GRAPH}*"))


@pytest.mark.parametrize("flavour", ["standard", "contrib"])
@pytest.mark.parametrize("precision", ["fp32", "fp16", "int8", "int4"])
def test_every_kind_of_pack(flavour: Flavour, precision: Precision, tmp_path: Path) -> None:
    made = exported(tmp_path, "qwen3_5", flavour=flavour, precision=precision)
    onnx.checker.check_model(made.out / GRAPH)
    pack = read_pack(made.out, verify=True)
    assert (pack.options.flavour, pack.options.precision) == (flavour, precision)
    assert pack.parity[-1]["passed"]
    assert len(pack.parity) == len(made.parity.cases) + 1 == 35
    assert sorted(os.listdir(tmp_path)) == ["base", "pack"]
    bound = 1e-5 if precision == "fp32" else made.parity.bounds.probability
    expected = decided(tmp_path / "base", dtype="fp32")
    assert apart(decided(made.out), expected) <= bound


def test_what_the_pack_tells(tmp_path: Path) -> None:
    made = exported(tmp_path)
    told = json.loads((made.out / "pack.json").read_text())
    card = Card.load(made.out)
    base = card.made_from["base"]
    assert isinstance(base, dict)
    assert base == {"name": "base", "digest": told["digests"]["weights"]}
    assert card.made_from["graph"] == {"flavour": "standard", "precision": "fp32"}
    assert told["model"]["name"] == "base"
    assert told["parity"][-1]["what"] == "all"
    readme = (made.out / "README.md").read_text()
    assert "| one token repeated | 200 | 200 | 3 |" in readme
    assert str(tmp_path) not in json.dumps(told) + json.dumps(card.to_json()) + readme
    assert made.to_json()["check"]["max_logit"] == made.parity.logit
    json.dumps(made.to_json(), allow_nan=False)


def test_figures_stand_in_pack_card_and_readme(tmp_path: Path) -> None:
    seen: list[Subject] = []

    def measure(subject: Subject) -> dict[str, Any]:
        seen.append(subject)
        probes = question_probes(subject.renderer, subject.card, STATE, ASKED)
        return {"set": {"decisions": len(probes[0].rows), "same answer": 1.0}}

    made = exported(tmp_path, figures=measure)
    assert len(seen) == 1
    expected = {"set": {"decisions": 3, "same answer": 1.0}}
    assert made.pack.figures == expected
    assert Card.load(made.out).made_from["figures"] == expected
    assert "- set, decisions: 3" in (made.out / "README.md").read_text()


def test_the_cards_labels_take_the_heads_place(tmp_path: Path) -> None:
    """An untied head of 512 rows, and a vocabulary of which only labels are left."""
    model = {"tied": False, "layers": 1, "vocab": 2048}
    whole = exported(tmp_path, "qwen3", model)
    made = export_onnx(
        tmp_path / "base", (), tmp_path / "card", labels="card", threads=1, progress=False
    )
    bank = made.pack.options.labels
    assert isinstance(bank, LabelBank)
    head = 2048 * 64 * 4
    assert size(whole) - size(made) > head - (len(bank.ids) * 64 + 2048) * 4 - 8192
    stored = onnx.load(made.out / GRAPH, load_external_data=False).graph.initializer
    assert "lm_head.weight" not in {tensor.name for tensor in stored}
    assert apart(decided(made.out), decided(whole.out)) < 1e-6


def test_one_question_baked_in(tmp_path: Path) -> None:
    model = {"tied": False, "layers": 1, "vocab": 2048}
    save_decider(tmp_path / "base", "qwen3", **model)
    card = Card(temperature=Temperature(choice=1.7))
    card.save(tmp_path / "card.json")
    made = exported(tmp_path, "qwen3", labels=QUESTION, card=tmp_path / "card.json")
    fixed = made.pack.options.labels
    assert isinstance(fixed, FixedLabels)
    assert (len(fixed.ids), fixed.temperature) == (3, 1.7)
    whole = export_onnx(tmp_path / "base", (), tmp_path / "whole", threads=1, progress=False)
    assert size(whole) - size(made) > 2048 * 64 * 4 - 8192
    stored = onnx.load(made.out / GRAPH, load_external_data=False).graph.initializer
    names = {tensor.name for tensor in stored}
    assert "lm_head.weight" not in names
    assert "lm_head.weight.labels" in names
    tokens = np.array([[5, 6, 7]])
    one = GraphSession(made.pack.graph, made.pack.config, made.pack.options, threads=1)
    other = GraphSession(whole.pack.graph, whole.pack.config, whole.pack.options, threads=1)
    asked = LabelRows.of([fixed.ids], [fixed.prior], [1.7])
    expected = other.run(tokens, [3], labels=asked)
    found = one.run(tokens, [3])
    np.testing.assert_allclose(found.probabilities, expected.probabilities, atol=1e-6)


@pytest.mark.parametrize("precision", ["int8", "int4"])
def test_the_embedding_has_eight_bits(precision: Precision, tmp_path: Path) -> None:
    wide = exported(tmp_path, "qwen2", {"layers": 1, "vocab": 4096})
    made = export_onnx(
        tmp_path / "base",
        (),
        tmp_path / "narrow",
        precision=precision,
        threads=1,
        progress=False,
    )
    stored = onnx.load(made.out / GRAPH, load_external_data=False).graph.initializer
    kinds = {tensor.name: tensor.data_type for tensor in stored}
    assert kinds["model.embed_tokens.weight.int8"] == onnx.TensorProto.INT8
    assert size(wide) - size(made) > 4096 * 64 * 2.9


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_adapter_engine_merged_folder_and_pack_agree(
    architecture: Architecture, tmp_path: Path
) -> None:
    made = case(tmp_path, architecture, layers=4)
    pack = export_onnx(made.base, made.adapters, tmp_path / "pack", threads=1, progress=False)
    merge(made.base, made.adapters, made.out, progress=False)
    live = decided(made.base, adapter=made.adapters[0], dtype="fp32")
    assert apart(decided(tmp_path / "pack"), live) <= 1e-5
    assert apart(decided(made.base, dtype="fp32"), live) > 1e-3  # the adapter does something
    found = transformers_shares(made.out)
    assert apart(found, live) <= 1e-5
    assert [one.name for one in pack.provenance.adapters] == ["adapter0"]
    digests = read_pack(tmp_path / "pack").digests
    assert digests.adapter == pack.provenance.adapters[0].digest
    assert pack.pack.name == "adapter0"


@torch.no_grad()
def transformers_shares(folder: Path) -> dict[str, list[float]]:
    """Our prompts through transformers' model of a folder."""
    model: Any = load(folder)
    found: dict[str, list[float]] = {}
    with Engine.from_pretrained(folder, dtype="fp32", threads=1) as engine:
        prompts = engine.renderer.render(STATE, ASKED)
    named: list[tuple[str, Question]] = list(ASKED.items())
    for (name, _), prompt in zip(named, prompts, strict=True):
        logits = model(torch.tensor([prompt.ids])).logits[0, -1, list(prompt.labels.ids)]
        found[name] = logits.softmax(0).tolist()
    return found


def test_several_adapters_are_added_in_order(tmp_path: Path) -> None:
    made = case(
        tmp_path,
        "qwen2",
        [{"target_modules": ["q_proj"]}, {"target_modules": ["lm_head"]}],
        layers=1,
    )
    pack = export_onnx(made.base, made.adapters, tmp_path / "pack", threads=1, progress=False)
    merge(made.base, made.adapters, made.out, progress=False)
    assert apart(decided(pack.out), decided(made.out, dtype="fp32")) < 1e-5
    assert [one.name for one in pack.provenance.adapters] == ["adapter0", "adapter1"]


def test_a_quantised_file_is_dequantised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("READOFF_CACHE", str(tmp_path / "cache"))
    model = tiny_model("qwen2", layers=1, max_position_embeddings=2048)
    write_gguf(tmp_path / "m.gguf", model, default="Q8_0", metadata=GGUF_TOKENIZER)
    made = export_onnx(tmp_path / "m.gguf", (), tmp_path / "pack", threads=1, progress=False)
    assert made.provenance.dequantised == "Q8_0"
    expected = decided(tmp_path / "m.gguf", dtype="fp32")
    assert apart(decided(made.out), expected) <= 1e-5


def test_a_context_too_short_for_some_probes(tmp_path: Path) -> None:
    made = exported(tmp_path, "qwen2", {"layers": 1, "max_position_embeddings": 260})
    assert 0 < len(made.parity.cases) < 34
