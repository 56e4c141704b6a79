"""The row-wise operators as Triton kernels, one launch each."""

from __future__ import annotations

from readoff.kernels.pointwise import gates, norms, rotary
from readoff.kernels.pointwise.gates import sigmoid_gate, swiglu
from readoff.kernels.pointwise.norms import add_rms_norm, gated_rms_norm, rms_norm
from readoff.kernels.pointwise.rotary import norm_rope_write
from readoff.kernels.specimens import Specimen

__all__ = [
    "add_rms_norm",
    "gated_rms_norm",
    "norm_rope_write",
    "rms_norm",
    "sigmoid_gate",
    "specimens",
    "swiglu",
]


def specimens() -> list[Specimen]:
    """Every kernel of the folder."""
    return norms.specimens() + gates.specimens() + rotary.specimens()
