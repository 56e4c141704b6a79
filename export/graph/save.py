"""A graph as bytes, or as a file with its weights beside it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx_ir as ir

WEIGHTS = ".data"
"""What the weights' file is called more than the graph's."""

SMALL = 1024
"""Tensors of at most so many bytes stay in the graph's file."""


def to_bytes(model: ir.Model) -> bytes:
    """One protobuf, weights included; for models under 2 GB."""
    serialised: bytes = ir.to_proto(model).SerializeToString()
    return serialised


def save(
    model: ir.Model, path: Path, progress: Callable[[int], None] = lambda done: None
) -> tuple[Path, Path]:
    """Write `path` and, beside it, `path`.data with the weights; returns both.

    Weights go from the checkpoint to the disk a tensor at a time, tables some rows at a time. They
    are aligned, so that a runtime can map them. What fails leaves files that the caller removes.
    `progress` is told the bytes that are written.
    """

    def told(tensor: ir.TensorProtocol, info: Any) -> None:
        progress(info.offset)

    data = path.with_name(path.name + WEIGHTS)
    ir.save(
        model,
        path,
        external_data=data.name,
        size_threshold_bytes=SMALL,
        alignment=4096,
        align_threshold=SMALL,
        callback=told,
    )
    return path, data
