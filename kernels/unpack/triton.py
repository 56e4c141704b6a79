"""`unpack` as one launch: a program writes BLOCK entries of one field."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from readoff.kernels.specimens import Specimen
from readoff.kernels.unpack.message import BLOCK, HEADER


@triton.jit
def _spread(
    packed,  # [P] int32
    starts,  # [FIELDS + 1] int64
    ints,  # [ints_size] int64
    floats,  # fp32
    ints_size,
    FIELDS: tl.constexpr,
    FIELDS_PADDED: tl.constexpr,
    HEADER: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Entries pid·BLOCK and on. Grid: (ints + floats) / BLOCK.

    A block lies in one field, found by counting the fields that begin at or before it: fields are
    few, so their starts are one small vector load that every program hits in the cache.
    """
    at = tl.program_id(0) * BLOCK
    number = tl.arange(0, FIELDS_PADDED)
    begin = tl.load(starts + number, mask=number < FIELDS, other=2147483647).to(tl.int32)
    field = tl.sum((begin <= at).to(tl.int32), axis=0) - 1
    first = tl.load(starts + field).to(tl.int32)
    source = tl.load(packed + HEADER * field)
    count = tl.load(packed + HEADER * field + 1)
    filler = tl.load(packed + HEADER * field + 2)
    offset = tl.arange(0, BLOCK)
    entry = at - first + offset
    held = entry < count
    if at < ints_size:
        value = tl.load(packed + source + entry, mask=held, other=0)
        tl.store(ints + at + offset, tl.where(held, value, filler).to(tl.int64))
    else:
        value = tl.load(packed + source + entry, mask=held, other=0)
        real = tl.where(held, value.to(tl.float32, bitcast=True), filler.to(tl.float32))
        tl.store(floats + at - ints_size + offset, real)


def unpack(
    packed: torch.Tensor, starts: torch.Tensor, ints: torch.Tensor, floats: torch.Tensor
) -> None:
    """See the contract in the package's docstring. Fewer than 2³¹ entries."""
    fields = len(starts) - 1
    blocks = (len(ints) + len(floats)) // BLOCK
    _spread[(blocks,)](
        packed,
        starts,
        ints,
        floats,
        len(ints),
        FIELDS=fields,
        FIELDS_PADDED=triton.next_power_of_2(fields),
        HEADER=HEADER,
        BLOCK=BLOCK,
        num_warps=4,
        num_stages=1,
    )


def specimens() -> list[Specimen]:
    """The one way it is launched: a forward's metadata has 27 fields."""
    return [
        Specimen(
            "unpack.spread[27 fields]",
            _spread,
            {
                "packed": "*i32",
                "starts": "*i64",
                "ints": "*i64",
                "floats": "*fp32",
                "ints_size": "i32",
            },
            {"FIELDS": 27, "FIELDS_PADDED": 32, "HEADER": HEADER, "BLOCK": BLOCK},
            aligned=("ints_size",),
            num_warps=4,
            num_stages=1,
        )
    ]
