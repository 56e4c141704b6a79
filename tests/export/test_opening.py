"""A model's name opens the engine that it is for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from readoff.engine.engine import Engine
from readoff.engine.errors import ReadoffError, SourceError
from readoff.export.errors import PackError
from readoff.export.opening import open_engine
from readoff.export.pack import PACK_FILE
from readoff.export.runtime import OnnxEngine
from tests.engine.models_on_disk import ASKED, STATE
from tests.export.packs import tiny_pack


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    source, pack = tiny_pack(tmp_path_factory.mktemp("m"), layers=1)
    return source, pack.folder


def test_each_gets_its_engine(places: tuple[Path, Path]) -> None:
    options: dict[str, Any] = {"threads": 1, "cache_bytes": 1 << 20, "max_queue": 7}
    with (
        open_engine(places[0], dtype="fp32", **options) as torch_engine,
        open_engine(str(places[1]), device="cpu", **options) as onnx_engine,
    ):
        assert isinstance(torch_engine, Engine)
        assert isinstance(onnx_engine, OnnxEngine)
        for engine in (torch_engine, onnx_engine):
            assert engine.serving.max_queue == 7
            assert engine.info()["cache_bytes"] == 1 << 20
        expected, found = torch_engine.decide(STATE, ASKED), onnx_engine.decide(STATE, ASKED)
        assert found["refund"].logits == pytest.approx(expected["refund"].logits, abs=1e-4)


@pytest.mark.parametrize(
    ("option", "value", "why"),
    [
        ("adapter", "some/adapter", "merged in when a pack is exported"),
        ("revision", "main", "belongs to hub ids"),
        ("dtype", "bf16", "chosen when it was exported"),
        ("quantize", "int8", "chosen when it was exported"),
        ("deterministic", True, "mode of the torch engine"),
        ("snapshot_every", 64, "torch engine's cache"),
    ],
)
def test_what_a_pack_cannot_take(
    places: tuple[Path, Path], option: str, value: Any, why: str
) -> None:
    with pytest.raises(ReadoffError, match=f"takes no {option}: that .*{why}"):
        open_engine(places[1], **{option: value})


def test_a_device_that_a_pack_does_not_know(places: tuple[Path, Path]) -> None:
    with pytest.raises(ReadoffError, match="cuda:1"):
        open_engine(places[1], device="cuda:1")


def test_a_damaged_pack_is_no_other_model(places: tuple[Path, Path], tmp_path: Path) -> None:
    (tmp_path / PACK_FILE).write_text("{}")
    with pytest.raises(PackError, match="no format number"):
        open_engine(tmp_path)
    with pytest.raises(SourceError):
        open_engine(tmp_path / "nowhere")


def test_the_torch_engine_says_what_a_pack_is(places: tuple[Path, Path]) -> None:
    with pytest.raises(SourceError, match=r"is a deployment pack.*OnnxEngine"):
        Engine.from_pretrained(places[1])
