"""`GgufFile`: the header of a GGUF file, parsed strictly and fast. No torch in this file.

The `gguf` package's own reader keeps an array for every token and needs seconds for a vocabulary
of 150,000; this one walks the same bytes in a fraction of a second and checks every length against
the size of the file, so that a cut-off or damaged file is an error and never a short read.
"""

from __future__ import annotations

import hashlib
import mmap
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gguf import GGML_QUANT_SIZES, GGMLQuantizationType

from readoff.engine.errors import CheckpointError
from readoff.engine.parameters import Shape

_MAGIC = b"GGUF"
_VERSIONS = (2, 3)
_SCALARS = {
    0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q",
    12: "<d",
}  # fmt: skip
_STRING, _ARRAY = 8, 9
_MAX_DEPTH = 8  # of arrays in arrays; no known key has any


@dataclass(frozen=True)
class GgufTensor:
    """Where one tensor lies. `shape` is row-major ([out, in]); `kind` is gguf's type name."""

    name: str
    shape: Shape
    kind: str
    offset: int  # bytes from the start of the file
    row_bytes: int  # bytes of one row (of the whole tensor if it has one axis)

    @property
    def nbytes(self) -> int:
        """Bytes of the whole tensor."""
        return self.row_bytes * (self.shape[0] if len(self.shape) > 1 else 1)


class GgufFile:
    """`metadata` (key to value, arrays as lists) and `tensors` (by their GGUF names).

    Raises CheckpointError for anything that isn't a complete GGUF file of version 2 or 3.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.metadata: dict[str, Any] = {}
        self.tensors: dict[str, GgufTensor] = {}
        self.header_digest = ""  # sha256 of everything before the tensor data, tokenizer included
        try:
            with (
                path.open("rb") as file,
                mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data,
            ):
                self._parse(_Cursor(data))
        except (OSError, ValueError, struct.error) as error:
            # An empty file can't be mapped; a bad length, type or UTF-8 sequence ends up here too.
            raise CheckpointError(
                f"{path} can't be read as GGUF ({error}). It is truncated, damaged or not a GGUF "
                "file; download it again."
            ) from None

    def _parse(self, cursor: _Cursor) -> None:
        magic, version = cursor.take(4), cursor.unpack("<I")
        if magic != _MAGIC or version not in _VERSIONS:
            raise ValueError(f"magic {magic!r}, version {version}; little-endian 2 or 3 expected")
        tensors, pairs = cursor.unpack("<Q"), cursor.unpack("<Q")
        for _ in range(pairs):
            key = cursor.string()
            self.metadata[key] = cursor.value(cursor.unpack("<I"))
        entries = [cursor.tensor() for _ in range(tensors)]
        alignment = self.metadata.get("general.alignment", 32)
        if not isinstance(alignment, int) or alignment < 1:
            raise ValueError(f"alignment {alignment!r}")
        start = -(-cursor.offset // alignment) * alignment
        self.header_digest = hashlib.sha256(cursor.data[: cursor.offset]).hexdigest()
        for name, shape, kind, offset in entries:
            tensor = _placed(name, shape, kind, start + offset)
            if tensor.offset + tensor.nbytes > len(cursor.data):
                raise ValueError(
                    f"the tensor {name} ends at byte {tensor.offset + tensor.nbytes}, the file "
                    f"at {len(cursor.data)}"
                )
            if name in self.tensors:
                raise ValueError(f"the tensor {name} is listed twice")
            self.tensors[name] = tensor


class _Cursor:
    """Reads forward through the mapped bytes; ValueError as soon as they run out."""

    def __init__(self, data: mmap.mmap) -> None:
        self.data, self.offset = data, 0

    def take(self, count: int) -> bytes:
        end = self.offset + count
        if end > len(self.data):
            raise ValueError("the header runs past the end of the file")
        piece = self.data[self.offset : end]
        self.offset = end
        return piece

    def unpack(self, form: str) -> Any:
        (value,) = struct.unpack(form, self.take(struct.calcsize(form)))
        return value

    def string(self) -> str:
        return self.take(self.unpack("<Q")).decode("utf-8")

    def value(self, kind: int, depth: int = 0) -> Any:
        if kind in _SCALARS:
            return self.unpack(_SCALARS[kind])
        if kind == _STRING:
            return self.string()
        if kind != _ARRAY:
            raise ValueError(f"unknown metadata type {kind}")
        if depth >= _MAX_DEPTH:
            raise ValueError(f"arrays nested deeper than {_MAX_DEPTH}")
        inner, count = self.unpack("<I"), self.unpack("<Q")
        if inner in _SCALARS:
            form = _SCALARS[inner]
            size = struct.calcsize(form)
            return list(struct.unpack(f"<{count}{form[1]}", self.take(count * size)))
        if count > len(self.data):  # each element takes a byte at least
            raise ValueError("an array is longer than the file")
        return [self.value(inner, depth + 1) for _ in range(count)]

    def tensor(self) -> tuple[str, Shape, int, int]:
        name, axes = self.string(), self.unpack("<I")
        if not 1 <= axes <= 4:
            raise ValueError(f"the tensor {name} has {axes} axes")
        shape = tuple(self.unpack("<Q") for _ in range(axes))  # fastest axis first
        if 0 in shape:
            raise ValueError(f"the tensor {name} is empty, of shape {list(shape[::-1])}")
        return name, shape[::-1], self.unpack("<I"), self.unpack("<Q")


def _placed(name: str, shape: Shape, kind: int, offset: int) -> GgufTensor:
    try:
        label = GGMLQuantizationType(kind)
        block, size = GGML_QUANT_SIZES[label]
    except (ValueError, KeyError):
        raise ValueError(f"the tensor {name} has the unknown type {kind}") from None
    width = 1
    for axis in shape[1:] or shape:
        width *= axis
    if width % block:
        raise ValueError(f"the tensor {name}: {width} columns aren't whole {label.name} blocks")
    return GgufTensor(name, shape, label.name, offset, width // block * size)
