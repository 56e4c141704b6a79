"""What can't be exported: one clear error, and nothing left behind."""

from __future__ import annotations

import errno
import os
import resource
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from readoff.engine.card import Card
from readoff.engine.card_fields import Digests
from readoff.engine.errors import (
    AdapterError,
    CardError,
    CheckpointError,
    ExportError,
    NumericsError,
    ReadoffError,
    SourceError,
)
from readoff.export import onnx_export as exporting
from readoff.export import session as sessions
from readoff.export.errors import PackError, ParityError
from readoff.export.onnx_export import export_onnx
from tests.adapters import save_adapter
from tests.engine.models_on_disk import save_decider
from tests.export.exporting import broken
from tests.gguf_files import write_gguf
from tests.models import tiny_model


def base(folder: Path, **options: Any) -> Path:
    save_decider(folder / "base", "qwen2", **({"layers": 1} | options))
    return folder / "base"


def refused(
    source: Path | str,
    out: Path,
    error: type[BaseException],
    message: str | None,
    adapters: tuple[Path, ...] = (),
    **options: Any,
) -> None:
    """The export fails so, and the folder around it is as before."""
    before = sorted(out.parent.rglob("*"))
    with pytest.raises(error, match=message):
        export_onnx(source, adapters, out, threads=1, progress=False, **options)
    assert sorted(out.parent.rglob("*")) == before


def test_an_adapter_of_another_size(tmp_path: Path) -> None:
    source = base(tmp_path)
    other = tiny_model("qwen2", hidden=32, layers=1)
    save_adapter(tmp_path / "adapter", other, target_modules=["q_proj"])
    refused(
        source,
        tmp_path / "pack",
        AdapterError,
        "Check that the adapter belongs",
        (tmp_path / "adapter",),
    )


def test_a_quantised_base_with_an_adapter(tmp_path: Path) -> None:
    model = save_decider(tmp_path / "base", "qwen2", layers=1)
    write_gguf(tmp_path / "m.gguf", model, default="Q8_0")
    save_adapter(tmp_path / "adapter", model.float(), target_modules=["q_proj"])
    refused(
        tmp_path / "m.gguf",
        tmp_path / "pack",
        ExportError,
        r"m\.gguf is quantised \(Q8_0\).*unquantised base",
        (tmp_path / "adapter",),
    )


def test_a_missing_tokenizer(tmp_path: Path) -> None:
    source = base(tmp_path)
    (source / "tokenizer.json").unlink()
    refused(source, tmp_path / "pack", CheckpointError, r"no tokenizer\.json")


def test_a_model_that_is_not_there(tmp_path: Path) -> None:
    refused(tmp_path / "none", tmp_path / "pack", SourceError, "none")


def test_a_card_of_another_model(tmp_path: Path) -> None:
    source = base(tmp_path)
    Card(digests=Digests(weights="0" * 64)).save(tmp_path / "card.json")
    refused(source, tmp_path / "pack", CardError, "another model", card=tmp_path / "card.json")


@pytest.mark.parametrize(
    ("flavour", "precision", "found", "needed"),
    [
        ("standard", "fp32", "1.14.1", r"1\.15\.0"),
        ("standard", "int4", "1.17.0", r"1\.18\.1"),
        ("contrib", "fp32", "1.19.2", r"1\.32\.0"),
    ],
)
def test_a_runtime_that_is_too_old(
    flavour: Any, precision: Any, found: str, needed: str, monkeypatch: Any, tmp_path: Path
) -> None:
    """Known before the model is even looked for."""
    monkeypatch.setattr(exporting, "load_runtime", lambda: SimpleNamespace(__version__=found))
    refused(
        "no/such-model",
        tmp_path / "pack",
        PackError,
        f"needs onnxruntime {needed} or newer, and {found} is installed",
        flavour=flavour,
        precision=precision,
    )


def test_a_runtime_that_lacks_the_opset(monkeypatch: Any, tmp_path: Path) -> None:
    """It says so itself when it loads the graph, and the graph is gone."""

    def unable(*arguments: Any, **options: Any) -> None:
        raise RuntimeError("Unsupported model: opset 17 is not supported, up to 15 is.\nmore")

    runtime = SimpleNamespace(
        __version__="1.99",
        SessionOptions=sessions.load_runtime().SessionOptions,
        InferenceSession=unable,
    )
    monkeypatch.setattr(sessions, "load_runtime", lambda: runtime)
    refused(base(tmp_path), tmp_path / "pack", PackError, r"1\.99 can't load.*opset 17 is not")


@pytest.mark.parametrize("name", ["onnx_ir", "onnxruntime"])
def test_missing_packages(name: str, monkeypatch: Any, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, name, None)
    refused("no/such-model", tmp_path / "pack", ExportError, "pip install")


def test_places_that_cannot_be_written(tmp_path: Path, monkeypatch: Any) -> None:
    source = base(tmp_path)
    (tmp_path / "pack").mkdir()
    refused(source, tmp_path / "pack", ExportError, "exists already.*--force")
    refused(source, source, ExportError, "made from", force=True)
    access = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: path != tmp_path and access(path, mode))
    refused(source, tmp_path / "other", ExportError, "no permission")


def test_a_pack_is_replaced_only_by_one_that_passed(tmp_path: Path, monkeypatch: Any) -> None:
    source, out = base(tmp_path), tmp_path / "pack"
    out.mkdir()
    (out / "old").write_text("old")
    (out / "pack.json").write_text("{}")
    with broken("model.norm.weight", 1.5, monkeypatch):
        refused(source, out, ParityError, "doesn't decide like the model", force=True)
    export_onnx(source, (), out, threads=1, progress=False, force=True)
    assert not (out / "old").exists()
    assert (out / "pack.json").exists()


def test_a_graph_that_decides_otherwise_is_deleted(tmp_path: Path, monkeypatch: Any) -> None:
    source = base(tmp_path)
    with broken("model.layers.0.mlp.up_proj.weight", 1.02, monkeypatch):
        refused(source, tmp_path / "pack", ParityError, r"a logit differs by.*Nothing was kept")
    with broken("model.layers.0.mlp.up_proj.weight.scale", 3.0, monkeypatch):
        refused(source, tmp_path / "pack", ParityError, "doesn't bear int8", precision="int8")


def test_no_space(tmp_path: Path, monkeypatch: Any) -> None:
    source = base(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=10**6))
    refused(source, tmp_path / "pack", ExportError, r"has 1\.0 MB free")


def test_the_disk_fills_up_while_weights_are_written(tmp_path: Path) -> None:
    """A true failure of a write: the system allows no file beyond 200 kB."""
    source = base(tmp_path)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, hard))  # Python ignores the signal of it
    try:
        refused(source, tmp_path / "pack", ExportError, "no room left")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def full(*arguments: Any, **options: Any) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def interrupt(*arguments: Any, **options: Any) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("step", "fault", "error"),
    [
        ("write_pack", full, ExportError),
        ("check", full, ExportError),
        ("check", interrupt, KeyboardInterrupt),
        ("write_pack", interrupt, KeyboardInterrupt),
    ],
)
def test_a_failure_on_the_way(
    step: str,
    fault: Callable[..., None],
    error: type[BaseException],
    tmp_path: Path,
    monkeypatch: Any,
) -> None:
    source = base(tmp_path)
    monkeypatch.setattr(exporting, step, fault)
    refused(source, tmp_path / "pack", error, "no room left" if fault is full else None)


def test_figures_that_fail(tmp_path: Path) -> None:
    def fail(subject: Any) -> dict[str, Any]:
        raise ReadoffError("no figures")

    refused(base(tmp_path), tmp_path / "pack", ReadoffError, "no figures", figures=fail)


def test_weights_that_are_not_finite(tmp_path: Path) -> None:
    source = base(tmp_path)
    file = source / "model.safetensors"
    tensors = load_file(file)
    tensors["model.layers.0.mlp.up_proj.weight"][3, 5] = torch.nan
    save_file(tensors, file, metadata={"format": "pt"})
    refused(source, tmp_path / "pack", NumericsError, "aren't finite")
