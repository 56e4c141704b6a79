"""One packed message of integers and floats, spread over the fixed buffers of a captured forward.

A captured graph reads its metadata from buffers of fixed size. What a batch holds is shorter: it
travels as one short message, and this writes every entry of every buffer from it, those beyond a
field's own values as that field's filler, so that nothing of the batch before can survive.

Contract of every implementation:
    packed: [P] int32, the message. It begins with three words a field (where its values begin in
        the message, how many there are, the filler); fp32 values travel as their bits.
    starts: [F + 1] int64, ascending from 0: field f is entries starts[f] .. starts[f + 1] of
        `ints` followed by `floats`. Multiples of BLOCK; no field lies in both.
    ints: [I] int64 and floats: [G] fp32, every entry of which is written. I + G is starts' last.
"""

from __future__ import annotations

import torch

from readoff.kernels.dispatch import Implementation, Op, always
from readoff.kernels.triton_support import implementation as triton_implementation
from readoff.kernels.unpack import reference as naive
from readoff.kernels.unpack.checks import check, check_values
from readoff.kernels.unpack.message import BLOCK, HEADER

__all__ = ["BLOCK", "HEADER", "unpack"]

_T = torch.Tensor

unpack: Op[[_T, _T, _T, _T], None] = Op(
    "unpack",
    [
        triton_implementation("unpack.triton", "unpack", "one launch for all fields"),
        Implementation("reference", naive.unpack, always("field by field")),
    ],
    check,
    check_values,
)
