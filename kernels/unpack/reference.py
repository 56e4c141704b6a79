"""Field by field, on the host's own word for where each begins."""

from __future__ import annotations

from itertools import pairwise

import torch

from readoff.kernels.unpack.message import HEADER


def unpack(
    packed: torch.Tensor, starts: torch.Tensor, ints: torch.Tensor, floats: torch.Tensor
) -> None:
    """See the contract in the package's docstring."""
    bounds = starts.tolist()
    for field, (first, last) in enumerate(pairwise(bounds)):
        source, count, filler = packed[HEADER * field : HEADER * (field + 1)].tolist()
        values = packed[source : source + count]
        if first < len(ints):
            into = ints[first:last]
            into[:count] = values
        else:
            into = floats[first - len(ints) : last - len(ints)]
            into[:count] = values.view(torch.float32)
        into[count:] = filler
