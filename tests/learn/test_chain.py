"""The chain: an adapter answers alike wherever it is taken, and where it doesn't, that is told."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from readoff.engine.errors import NumericsError
from readoff.learn import links
from readoff.learn.chain import items, main
from readoff.learn.evaluate.decisions import read_decisions
from readoff.learn.links import Chain, Link, passed, table
from tests.adapters import edit_adapter
from tests.learn.evaluate.made import FAMILIES, labelled, save_pair, write


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("chain")
    save_pair(folder)
    write(folder / "test.jsonl", labelled(24))
    return folder


def run(place: Path, work: Path, *more: str, adapter: str = "adapter") -> int:
    options = ["--model", str(place / "base"), "--adapter", str(place / adapter)]
    options += ["--test", str(place / "test.jsonl"), "--work", str(work), "--items", "12", *more]
    with pytest.raises(SystemExit) as end:
        main(options)
    assert isinstance(end.value.code, int)
    return end.value.code


def test_a_whole_chain_answers_alike(
    place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(place, tmp_path) == 0
    told = capsys.readouterr().out
    found = json.loads((tmp_path / "chain.json").read_text())
    assert found["ok"]
    assert found["questions"] == 12
    links = {(link["what"], link["precision"]): link for link in found["links"]}
    assert links["merged, Engine", "fp32"]["max_dp"] == 0.0
    assert 0.0 < links["merged, transformers", "fp32"]["max_dp"] <= 1.1e-4
    pack = links["ONNX pack, OnnxEngine", "fp32"]
    assert pack["ok"] or "missing" in pack["note"]
    rounded = links["base + adapter, Engine", "bf16"]
    assert rounded["ok"] is None
    assert rounded["max_dp"] > 1e-4
    assert links["merged, transformers", "bf16"]["bound"] == pytest.approx(2.5 * rounded["max_dp"])
    assert "| equal |" in told


def test_another_merged_folder_is_told(
    place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(place, tmp_path, "--no-bf16", "--no-onnx") == 0
    [folder] = tmp_path.glob("merged-*")
    tensors = load_file(folder / "model.safetensors")
    tensors["model.layers.1.mlp.down_proj.weight"] *= 1.05
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    card = json.loads((folder / "decision.json").read_text())
    card["digests"] = {}  # else it is refused, which is another test's
    (folder / "decision.json").write_text(json.dumps(card))
    capsys.readouterr()
    assert run(place, tmp_path, "--no-bf16", "--no-onnx") == 1
    assert "DIFFERS" in capsys.readouterr().out


@pytest.mark.parametrize("fault", ["nan", "cut", "missing"])
def test_a_corrupted_adapter_fails(
    fault: str, place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save_pair(tmp_path)
    file = tmp_path / "adapter" / "adapter_model.safetensors"
    if fault == "nan":
        edit_adapter(
            tmp_path / "adapter", lambda t: {k: torch.full_like(v, torch.nan) for k, v in t.items()}
        )
    elif fault == "cut":
        file.write_bytes(file.read_bytes()[:-64])
    else:
        edit_adapter(tmp_path / "adapter", lambda t: dict(list(t.items())[1:]))
    write(tmp_path / "test.jsonl", labelled(12))
    assert run(tmp_path, tmp_path / "work", "--no-bf16", "--no-onnx") == 1
    assert "readoff: error:" in capsys.readouterr().err
    assert not list((tmp_path / "work").glob("merged-*"))


def test_another_adapter_is_another_folder(place: Path, tmp_path: Path) -> None:
    assert run(place, tmp_path, "--no-bf16", "--no-onnx") == 0
    other = tmp_path / "other"
    save_pair(other)
    edit_adapter(other / "adapter", lambda t: {k: v * 1.5 for k, v in t.items()})
    write(other / "test.jsonl", labelled(12))
    assert run(other, tmp_path, "--no-bf16", "--no-onnx") == 0
    assert len(list(tmp_path.glob("merged-*"))) == 2


def test_what_could_not_run_is_told_and_does_not_fail(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(links, "find_spec", lambda name: None if name == "onnxruntime" else True)
    asks = items(read_decisions([place / "test.jsonl"], ("test",)), 6, 0)
    found = Chain(str(place / "base"), place / "adapter", asks, tmp_path)
    made = found.run(bf16=False)
    assert made[-1].ok is None
    assert passed(made)
    assert "not run: onnxruntime missing" in table(found.document(made))


def test_one_difference_fails_all() -> None:
    good = Link("a", "b", "fp32", 1e-5, 1e-6, 1.0, True)
    assert passed([good, Link("a", "b", "fp32", None)])
    assert not passed([good, Link("a", "b", "fp32", 1e-5, 1e-4, 1.0, False)])


def test_numbers_that_are_none_are_an_error() -> None:
    with pytest.raises(NumericsError, match="aren't numbers"):
        links._link("a", "b", "fp32", 1.0, [np.array([0.5])], [np.array([np.nan])])
    with pytest.raises(NumericsError, match="1 answers"):
        links._link("a", "b", "fp32", 1.0, [], [np.array([0.5])])


def test_items_are_of_all_families(place: Path) -> None:
    decisions = read_decisions([place / "test.jsonl"], ("test",))
    for count in (6, 8, 13):
        asks = items(decisions, count, seed=0)
        assert sum(len(ask.questions) for ask in asks) == count
    assert len(items(decisions, len(FAMILIES), seed=0)) >= 5
