"""Saved prefixes: a warm start, and every file that must be refused."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file

from readoff.engine.engine import Engine
from readoff.engine.errors import ClosedError, PrefixFileError, ReadoffError
from tests import models

from .models_on_disk import ASKED, STATE, save_decider
from .passes_rig import KINDS
from .test_engine_cache import near

PARTS: list[Any] = ["one", "two", {"three": 3}]
Tensors = dict[str, torch.Tensor]


def layers(kind: models.Architecture) -> int:
    return 4 if kind == "qwen3_5" else 2


@pytest.fixture(scope="module", params=KINDS)
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp(str(request.param))
    save_decider(path, request.param, layers=layers(request.param))
    return path


@pytest.fixture(scope="module")
def saved(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("saved") / "prefixes.safetensors"
    with Engine.from_pretrained(folder, dtype="fp32") as engine:
        engine.decide(STATE, ASKED)
        engine.decide(PARTS, ASKED)
        engine.decide(STATE[:20] + " and more", ASKED)
        held = engine.stats()["cache"]["tokens"]
        assert engine.save_prefixes(path) == held > 100
    return path


@pytest.fixture
def engine(folder: Path) -> Iterator[Engine]:
    with Engine.from_pretrained(folder, dtype="fp32") as made:
        yield made
        check(made)


def check(engine: Engine) -> None:
    cache = engine._worker.cache
    assert cache is not None
    cache.check_integrity()
    assert not cache._pinned


def edit(source: Path, target: Path, change: Callable[[Tensors, dict[str, str]], None]) -> Path:
    with safe_open(source, "pt") as file:
        told = dict(file.metadata())
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    change(tensors, told)
    save_file(tensors, target, told)
    return target


def test_a_service_starts_warm(engine: Engine, saved: Path, folder: Path) -> None:
    cold = Engine.from_pretrained(folder, dtype="fp32", cache_bytes=0)
    tokens = engine.load_prefixes(saved)
    assert tokens == engine.stats()["cache"]["tokens"]
    for state in (STATE, PARTS):
        decision = engine.decide(state, ASKED)
        own = sum(len(p.pieces[-1].ids) for p in engine.renderer.render(state, ASKED))
        assert decision.usage.computed_tokens == own
        assert near(decision, cold.decide(state, ASKED))
    assert engine.load_prefixes(saved) == 0  # it is all there
    assert engine.load_prefixes(str(saved)) == 0  # type: ignore[arg-type]


def test_what_is_there_stays_and_what_is_saved_joins_it(engine: Engine, saved: Path) -> None:
    engine.decide(STATE[:30], ASKED)
    before = engine.stats()["cache"]["tokens"]
    added = engine.load_prefixes(saved)
    assert engine.stats()["cache"]["tokens"] == before + added
    assert engine.decide(STATE[:30], ASKED).usage.cached_tokens > 0


def test_as_much_as_fits_is_loaded(folder: Path, saved: Path) -> None:
    with Engine.from_pretrained(folder, dtype="fp32") as probe:
        storage = probe._worker.cache.storage  # type: ignore[union-attr]
        budget = storage.size(240, 4)
    cold = Engine.from_pretrained(folder, dtype="fp32", cache_bytes=0)
    with Engine.from_pretrained(folder, dtype="fp32", cache_bytes=budget) as engine:
        assert 0 < engine.load_prefixes(saved) <= 240
        check(engine)
        asked = {"refund": ASKED["refund"]}
        for state in ("x", "y"):
            assert near(engine.decide(state, asked), cold.decide(state, asked))
        check(engine)


def test_an_empty_cache_is_saved_too(engine: Engine, tmp_path: Path) -> None:
    path = tmp_path / "none.safetensors"
    assert engine.save_prefixes(path) == 0
    assert engine.load_prefixes(path) == 0
    assert [p.name for p in tmp_path.iterdir()] == ["none.safetensors"]


def refused(engine: Engine, path: Path, match: str) -> None:
    before = engine.stats()["cache"]
    with pytest.raises(PrefixFileError, match=match):
        engine.load_prefixes(path)
    assert engine.stats()["cache"] == before
    check(engine)


def test_other_weights_are_refused(saved: Path, folder: Path, tmp_path: Path) -> None:
    kind: models.Architecture = "qwen3_5" if "qwen3_5" in folder.name else "qwen2"
    save_decider(tmp_path, kind, layers=layers(kind), seed=1)
    with Engine.from_pretrained(tmp_path, dtype="fp32") as other:
        refused(other, saved, "other weights:")


def test_another_template_is_refused(saved: Path, folder: Path, tmp_path: Path) -> None:
    kind: models.Architecture = "qwen3_5" if "qwen3_5" in folder.name else "qwen2"
    save_decider(tmp_path, kind, layers=layers(kind))
    config = tmp_path / "tokenizer_config.json"
    config.write_text(config.read_text().replace("<|im_end|>", "<|im_end|> "))
    with Engine.from_pretrained(tmp_path, dtype="fp32") as other:
        refused(other, saved, "template")


def test_another_rotation_with_the_same_weights_is_refused(
    saved: Path, folder: Path, tmp_path: Path
) -> None:
    for file in folder.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    config = json.loads((tmp_path / "config.json").read_text())
    config["rope_parameters"]["rope_theta"] = 20_000.0
    (tmp_path / "config.json").write_text(json.dumps(config))
    with Engine.from_pretrained(tmp_path, dtype="fp32") as other:
        refused(other, saved, "other config:")


def test_another_dtype_is_refused(saved: Path, folder: Path) -> None:
    with Engine.from_pretrained(folder, dtype="bf16") as other:
        refused(other, saved, "dtype")


@pytest.mark.parametrize("size", [0, 1, 8, 100, 0.5, -1])
def test_truncated_files_are_refused(
    engine: Engine, saved: Path, tmp_path: Path, size: float
) -> None:
    data = saved.read_bytes()
    cut = int(size * len(data)) if isinstance(size, float) else size
    path = tmp_path / "cut"
    path.write_bytes(data[:cut])
    refused(engine, path, "damaged")


def _ids(change: Callable[[torch.Tensor], Any]) -> Callable[[Tensors, dict[str, str]], None]:
    def apply(tensors: Tensors, told: dict[str, str]) -> None:
        change(tensors["ids"])

    return apply


def _nodes(change: Callable[[list[list[Any]]], Any]) -> Callable[[Tensors, dict[str, str]], None]:
    def apply(tensors: Tensors, told: dict[str, str]) -> None:
        nodes = json.loads(told["nodes"])
        change(nodes)
        told["nodes"] = json.dumps(nodes)

    return apply


def _keys(change: Callable[[Tensors, str], Any]) -> Callable[[Tensors, dict[str, str]], None]:
    def apply(tensors: Tensors, told: dict[str, str]) -> None:
        change(tensors, next(name for name in sorted(tensors) if name.startswith("k.")))

    return apply


def drop(of: dict[str, Any], name: str) -> None:
    del of[name]


DAMAGES: dict[str, Callable[[Tensors, dict[str, str]], None]] = {
    "negative id": _ids(lambda ids: ids.__setitem__(3, -1)),
    "id beyond the vocabulary": _ids(lambda ids: ids.__setitem__(0, 512)),
    "not a number": _keys(lambda t, name: t[name].view(-1).__setitem__(5, torch.nan)),
    "infinite": _keys(lambda t, name: t[name].view(-1).__setitem__(0, torch.inf)),
    "another shape": _keys(lambda t, name: t.__setitem__(name, t[name][:-1].clone())),
    "another type": _keys(lambda t, name: t.__setitem__(name, t[name].half())),
    "a layer missing": _keys(lambda t, name: t.pop(name)),
    "no ids": lambda tensors, told: drop(tensors, "ids"),
    "parent after child": _nodes(lambda nodes: nodes[0].__setitem__(0, 1)),
    "parent below none": _nodes(lambda nodes: nodes[0].__setitem__(0, -2)),
    "its own parent": _nodes(lambda nodes: nodes[1].__setitem__(0, 1)),
    "negative length": _nodes(lambda nodes: nodes[0].__setitem__(2, -5)),
    "empty node": _nodes(lambda nodes: nodes[0].__setitem__(2, 0)),
    "half a token": _nodes(lambda nodes: nodes[0].__setitem__(2, 1.5)),
    "true for a number": _nodes(lambda nodes: nodes[0].__setitem__(0, True)),
    "a wrong snapshot": _nodes(lambda nodes: nodes[0].__setitem__(3, 10**9)),
    "a node too many": _nodes(lambda nodes: nodes.append([-1, nodes[0][1], 5, -1])),
    "a field too many": _nodes(lambda nodes: nodes[0].append(1)),
    "no nodes": lambda tensors, told: drop(told, "nodes"),
    "nodes that aren't JSON": lambda tensors, told: told.update(nodes="[["),
    "nested beyond reason": lambda tensors, told: told.update(nodes="[" * 100_000),
    "a key that isn't an object": lambda tensors, told: told.update(identity="3"),
}


@pytest.mark.parametrize("damage", sorted(DAMAGES))
def test_damaged_files_are_refused(
    engine: Engine, saved: Path, tmp_path: Path, damage: str
) -> None:
    path = edit(saved, tmp_path / "damaged", DAMAGES[damage])
    refused(engine, path, "damaged")


def test_other_files_are_refused(engine: Engine, tmp_path: Path) -> None:
    refused(engine, tmp_path / "none", "There is no file")
    refused(engine, tmp_path, "damaged|no file")
    path = tmp_path / "weights.safetensors"
    save_file({"ids": torch.zeros(3)}, path)
    refused(engine, path, "isn't a file of saved prefixes")
    path.write_text("hello")
    refused(engine, path, "damaged")


def test_where_nothing_can_be_written(engine: Engine, tmp_path: Path) -> None:
    engine.decide(STATE, ASKED)
    for path in (tmp_path / "no folder" / "file", tmp_path, Path(".")):
        with pytest.raises(ReadoffError, match="can't be written"):
            engine.save_prefixes(path)
    assert list(tmp_path.iterdir()) == []
    assert engine.decide(STATE, ASKED).usage.cached_tokens > 0


def test_a_closed_engine_neither_saves_nor_loads(folder: Path, saved: Path, tmp_path: Path) -> None:
    engine = Engine.from_pretrained(folder, dtype="fp32")
    engine.close()
    with pytest.raises(ClosedError):
        engine.load_prefixes(saved)
    with pytest.raises(ClosedError):
        engine.save_prefixes(tmp_path / "x")
    with pytest.raises(ClosedError):
        engine.clear_cache()
