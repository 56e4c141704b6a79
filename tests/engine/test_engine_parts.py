"""What an engine is made from: cards, adapters, devices, threads, kernels; and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from readoff.engine.answers import ChoiceAnswer, NoulAnswer
from readoff.engine.card import Card
from readoff.engine.card_fields import Digests, Prior, Temperature
from readoff.engine.engine import Engine
from readoff.engine.errors import CardError, CheckpointError, ReadoffError
from readoff.kernels.dispatch import OPS
from tests import models
from tests.adapters import save_adapter

from .models_on_disk import ASKED, STATE, TEAM, save_decider


@pytest.fixture(scope="module", params=models.ARCHITECTURES)
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp(str(request.param))
    save_decider(path, request.param)
    return path


def test_temperature_and_prior_are_applied(folder: Path, tmp_path: Path) -> None:
    plain = Engine.from_pretrained(folder, dtype="fp32").decide(STATE, ASKED)
    card = Card(
        temperature=Temperature(choice=2.0, noul=0.5, by_field={"anger": 4.0}),
        prior=Prior(by_field={"team": [1.0, 0.0, -1.0]}),
    )
    card.save(tmp_path / "card.json")
    tuned = Engine.from_pretrained(folder, card=tmp_path / "card.json", dtype="fp32")
    found = tuned.decide(STATE, ASKED)
    shift = {"team": (2.0, [1.0, 0.0, -1.0]), "anger": (4.0, [0.0] * 3), "refund": (0.5, [0.0] * 2)}
    for name, (temperature, prior) in shift.items():
        z = torch.tensor(list(plain[name].logits.values()), dtype=torch.float64)
        wanted = ((z - torch.tensor(prior)) / temperature).softmax(-1).tolist()
        answer = found[name]
        if isinstance(answer, NoulAnswer):
            assert answer.noul == pytest.approx(wanted[0], abs=1e-6)
        else:
            assert list(answer.probabilities.values()) == pytest.approx(wanted, abs=1e-6)
        # logits stay raw
        assert list(answer.logits.values()) == pytest.approx(z.tolist(), abs=1e-4)


def test_a_published_checkpoint_brings_its_calibration(folder: Path, tmp_path: Path) -> None:
    """The published layout: an adapter, calibration.json and label_space.json in one folder."""
    model = models.tiny_model(_architecture(folder))
    adapter = tmp_path / "adapter"
    tuned = save_adapter(adapter, model, target_modules="all-linear")
    config = json.loads((adapter / "adapter_config.json").read_text())
    config["base_model_name_or_path"] = str(folder)
    (adapter / "adapter_config.json").write_text(json.dumps(config))
    temperatures = {"Choice": 1.11, "Score": 1.01, "Noul": 0.82}
    (adapter / "calibration.json").write_text(json.dumps({"temperatures": temperatures}))
    labels = {"choice": "A-Z|AA-ZZ", "score": "0-9", "noul": ["True", "False"]}
    (adapter / "label_space.json").write_text(json.dumps(labels))
    engine = Engine.from_pretrained(adapter, dtype="fp32")
    assert engine.card.temperature_for("choice", "q", 3) == 1.11
    assert engine.card.temperature_for("score", "q", 3) == 1.01
    assert engine.card.temperature_for("noul", "q", 2) == 0.82
    answer = engine.decide(STATE, {"team": TEAM})["team"]
    assert isinstance(answer, ChoiceAnswer)
    [prompt] = engine.renderer.render(STATE, {"team": TEAM})
    with torch.no_grad():  # the adapter applied, not merged, by PEFT
        logits = tuned(torch.tensor([prompt.ids])).logits[0, -1, list(prompt.labels.ids)]
    wanted = (logits.double() / 1.11).softmax(-1).tolist()
    assert list(answer.probabilities.values()) == pytest.approx(wanted, abs=1e-5)


def _architecture(folder: Path) -> models.Architecture:
    kind = json.loads((folder / "config.json").read_text())["model_type"]
    found: models.Architecture = "qwen3_5" if kind.startswith("qwen3_5") else kind
    return found


def test_a_card_of_another_model_is_refused(folder: Path, tmp_path: Path) -> None:
    for digests in (
        Digests(weights="0" * 64),
        Digests(adapter="0" * 64),
        Digests(tokenizer="0" * 64),
    ):
        Card(digests=digests).save(tmp_path / "card.json")
        with pytest.raises(CardError, match="belongs to another model"):
            Engine.from_pretrained(folder, card=tmp_path / "card.json")
    with pytest.raises(CardError, match="no decision card at"):
        Engine.from_pretrained(folder, card=tmp_path / "none.json")


def test_threads_are_given_back(folder: Path) -> None:
    before = torch.get_num_threads()
    engine = Engine.from_pretrained(folder, threads=1 if before > 1 else 2)
    assert torch.get_num_threads() == before
    seen = []
    hook = engine.backbone.register_forward_hook(lambda *_: seen.append(torch.get_num_threads()))
    engine.decide(STATE, ASKED)
    hook.remove()
    assert seen == [1 if before > 1 else 2]
    assert torch.get_num_threads() == before


@pytest.mark.parametrize("bad", [0, -1, 1.5, "two", True])
def test_threads_must_be_a_positive_whole_number(folder: Path, bad: Any) -> None:
    with pytest.raises(ReadoffError, match="positive whole number"):
        Engine.from_pretrained(folder, threads=bad)


@pytest.mark.parametrize(
    ("option", "value", "match"),
    [
        ("device", "tpu", "tpu"),
        ("device", "meta", "not supported"),
        ("dtype", "int8", "not supported"),
        ("dtype", torch.float64, "not supported"),
    ],
)
def test_unknown_devices_and_dtypes(folder: Path, option: str, value: Any, match: str) -> None:
    with pytest.raises(ReadoffError, match=match):
        Engine.from_pretrained(folder, **{option: value})


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_a_missing_gpu_is_named(folder: Path) -> None:
    with pytest.raises(ReadoffError, match="sees no CUDA device"):
        Engine.from_pretrained(folder, device="cuda")


def test_a_missing_tokenizer_is_named(tmp_path: Path) -> None:
    models.save_tiny(tmp_path, "qwen2")
    with pytest.raises(ReadoffError, match="tokenizer"):
        Engine.from_pretrained(tmp_path)


def test_a_vocabulary_smaller_than_the_labels_is_named(tmp_path: Path) -> None:
    save_decider(tmp_path, vocab=50)
    with pytest.raises(CheckpointError, match="vocabulary"):
        Engine.from_pretrained(tmp_path)


def test_what_was_fitted_to_the_base_is_not_applied_to_its_adapter(tmp_path: Path) -> None:
    base, adapter = tmp_path / "base", tmp_path / "adapter"
    model = save_decider(base)
    save_adapter(adapter, model)
    (base / "calibration.json").write_text(json.dumps({"temperature": {"noul": 50}}))
    assert Engine.from_pretrained(base).card.temperature_for("noul", "q", 2) == 50
    assert Engine.from_pretrained(base, adapter).card == Card.default()
    (base / "calibration.json").unlink()
    tuned = Card(temperature=Temperature(noul=3.0))
    tuned.save(base)
    assert Engine.from_pretrained(base, adapter).card == Card.default()
    from readoff.engine.source import resolve

    digest = resolve(base, adapter).adapter_digest()
    Card(temperature=Temperature(noul=3.0), digests=Digests(adapter=digest)).save(base)
    assert Engine.from_pretrained(base, adapter).card.temperature_for("noul", "q", 2) == 3.0


def test_the_environment_chooses_kernels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save_decider(tmp_path)
    monkeypatch.setenv("READOFF_KERNELS", "tree_attention=reference,linear=plain")
    before = OPS["linear"].calls["plain"], OPS["tree_attention"].calls["reference"]
    engine = Engine.from_pretrained(tmp_path)
    engine.decide(STATE, ASKED)
    assert engine.backbone.layout == "plain"
    assert OPS["linear"].calls["plain"] > before[0]
    assert OPS["tree_attention"].calls["reference"] > before[1]
    for wrong in ("foo", "linear=onednn,tree_attention=foo"):
        monkeypatch.setenv("READOFF_KERNELS", wrong)
        with pytest.raises(ReadoffError, match="READOFF_KERNELS"):
            Engine.from_pretrained(tmp_path)
