"""`Exported`: what an ONNX export made, for people and programs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from readoff.export.graph.options import GraphOptions
from readoff.export.merged import Origin
from readoff.export.pack import Pack
from readoff.export.parity import Parity


@dataclass(frozen=True)
class Provenance:
    """What a graph was made from; `dequantised` names the formats of a quantised base."""

    base: Origin
    adapters: tuple[Origin, ...]
    dequantised: str | None
    left_out: tuple[str, ...]

    def to_json(self, options: GraphOptions, figures: Mapping[str, Any]) -> dict[str, Any]:
        """For the card, as JSON values that name no place on this machine."""
        told: dict[str, Any] = {
            "version": 1,
            "readoff": version("readoff"),
            "base": asdict(self.base),
            "adapters": [asdict(adapter) for adapter in self.adapters],
            "dequantised": self.dequantised,
            "left_out": list(self.left_out),
            "graph": {"flavour": options.flavour, "precision": options.precision},
        }
        return told | ({"figures": dict(figures)} if figures else {})


@dataclass(frozen=True)
class Exported:
    """A pack that was written to `out` and passed its check."""

    out: Path
    pack: Pack
    parity: Parity
    provenance: Provenance
    notes: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Everything, as JSON values."""
        pack, parity = self.pack, self.parity
        made = self.provenance.to_json(pack.options, pack.figures)
        return {
            "out": str(self.out),
            **made,
            "bytes": pack.nbytes,
            "onnxruntime": pack.runtime,
            "figures": dict(pack.figures),
            "check": {
                "bounds": asdict(parity.bounds),
                "max_logit": parity.logit,
                "max_probability": parity.probability,
                "mean_probability": parity.mean,
                "same": parity.same,
                "rows": parity.table(),
            },
            "notes": list(self.notes),
        }
