"""`Merged`: what a merge made, for people and programs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from readoff.export.difference import Difference


@dataclass(frozen=True)
class Origin:
    """A base or an adapter: the name it was given by, and the sha256 of its files."""

    name: str
    digest: str


@dataclass(frozen=True)
class Merged:
    """A folder that was written.

    `digest` is the sha256 of its weights as `Checkpoint.digest` computes it; `dtype` that of most
    of them. `dequantised` names the formats of a quantised base; `left_out` what the base or an
    adapter has and the result lacks. `untied`: the head was the embedding, and isn't any more.
    """

    out: Path
    base: Origin
    adapters: tuple[Origin, ...]
    digest: str
    dtype: str
    nbytes: int
    files: int
    tensors: int
    untied: bool
    dequantised: str | None
    left_out: tuple[str, ...]
    difference: Difference | None
    notes: tuple[str, ...]

    def provenance(self) -> dict[str, Any]:
        """What the result was made from, as JSON values that name no place on this machine."""
        return {
            "version": 1,
            "readoff": version("readoff"),
            "base": asdict(self.base),
            "adapters": [asdict(adapter) for adapter in self.adapters],
            "result": {"digest": self.digest, "dtype": self.dtype, "untied": self.untied},
            "dequantised": self.dequantised,
            "left_out": list(self.left_out),
        }

    def to_json(self) -> dict[str, Any]:
        """Everything, as JSON values."""
        difference = None if self.difference is None else asdict(self.difference)
        size = {"bytes": self.nbytes, "files": self.files, "tensors": self.tensors}
        told: Mapping[str, Any] = {"difference": difference, "notes": list(self.notes)}
        return {"out": str(self.out), **self.provenance(), **size, **told}
