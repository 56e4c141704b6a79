"""Packs written by `export_onnx` itself from seeded tiny models."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import onnx_ir as ir

from readoff.engine.questions import Choice
from readoff.export.exported import Exported
from readoff.export.graph import model as building
from readoff.export.onnx_export import export_onnx
from tests.engine.models_on_disk import save_decider
from tests.models import Architecture

QUESTION = Choice(criteria={"billing": None, "tech": None, "sales": None})


def exported(
    folder: Path, architecture: Architecture = "qwen2", model: Any = None, **options: Any
) -> Exported:
    """Save a decider to `folder`/base (`model`: options of `save_decider`) and export it to
    `folder`/pack."""
    if not (folder / "base").exists():
        save_decider(folder / "base", architecture, **(model or {}))
    return export_onnx(folder / "base", (), folder / "pack", progress=False, threads=1, **options)


@contextmanager
def broken(name: str, value: float, monkeypatch: Any) -> Iterator[None]:
    """Graphs whose initializer called `name` is multiplied by `value`: a builder with a fault."""
    build = building.build_model

    def wrong(*arguments: Any) -> ir.Model:
        model = build(*arguments)
        initializer = model.graph.initializers[name]
        assert initializer.const_value is not None
        spoilt = initializer.const_value.numpy() * initializer.const_value.numpy().dtype.type(value)
        initializer.const_value = ir.tensor(spoilt, name=name)
        return model

    with monkeypatch.context() as patch, warnings.catch_warnings():
        patch.setattr(building, "build_model", wrong)
        yield
