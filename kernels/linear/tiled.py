"""A product on the CPU whose rows never depend on how many rows there are.

Libraries choose blocking, and with it the order of additions, by the number of rows. Here every
call multiplies the same number of rows, the last tile filled up with zeros. (Where weights can't
be packed the BLAS was seen to break this for rows of 6 numbers, never for multiples of 4. Where the
processor has no bf16 the library's emulation breaks it too, with three threads: rows at the border
of two threads' shares add up in another order. Plain weights below fp32 are therefore packed first,
or multiplied in fp32 where there is no packed layout.)

The size was chosen by measuring (AVX512-bf16, one thread, packed weights of 1024 -> 7168 and
3584 -> 1024), as times of the whole product in bf16:

| tile |     1 row | 40 rows | 130 rows |  512 rows |
|------|-----------|---------|----------|-----------|
|   16 |       1.8 |     1.3 |  1.5–2.5 |   1.0–1.4 |
|   32 |   2.7–3.0 | 1.3–1.5 |  1.2–1.5 |   1.0–1.5 |
|   64 |   4.7–5.5 | 1.2–1.4 |  1.5–2.0 |  0.9–1.15 |
|  128 |   10–11   | 2.4–2.9 |  2.0–2.9 |   0.8–1.1 |
"""

from __future__ import annotations

import torch

from readoff.kernels.dispatch import Site, Verdict
from readoff.kernels.linear.cpu import linear_packed, linear_plain, pack
from readoff.kernels.linear.int8 import linear_int8, serves_int8
from readoff.kernels.linear.quantised import QuantisedWeight, Weight

TILE = 64
"""Rows of every product."""

_ALIGNMENT = 64
"""Bytes. A BLAS may peel a first part off rows that don't start at a vector's border."""


def linear_tiled(x: torch.Tensor, weight: Weight, bias: torch.Tensor | None) -> torch.Tensor:
    """Tiles of `TILE` rows, one after the other. int8 sums are exact and need no tiles."""
    if isinstance(weight, QuantisedWeight):
        return linear_int8(x, weight, bias)
    dtype = x.dtype
    if dtype != torch.float32 and not weight.is_mkldnn:
        weight = pack(weight)
        if not weight.is_mkldnn:
            bias = None if bias is None else bias.float()
            x, weight = x.float(), weight.float()
    product = linear_packed if weight.is_mkldnn else linear_plain
    rows, width = x.shape
    x = x.contiguous()
    if x.data_ptr() % _ALIGNMENT:
        x = x.clone()
    out = torch.empty(rows, weight.shape[0], dtype=dtype, device=x.device)  # [T, N]
    whole = rows - rows % TILE
    for at in range(0, whole, TILE):
        out[at : at + TILE] = product(x[at : at + TILE], weight, bias)
    if whole < rows:
        last = torch.zeros(TILE, width, dtype=x.dtype, device=x.device)
        last[: rows - whole] = x[whole:]
        out[whole:] = product(last, weight, bias)[: rows - whole]
    return out


def forced_tiled(site: Site) -> Verdict:
    """Where it may run when asked for by name."""
    if site.device != "cpu":
        return False, f"{site.device} tensors"
    if site.grad:
        return False, "gradients are wanted, and they would lose the fixed order"
    if site.layout == "int8":
        served, reason = serves_int8(site)
        return served, "sums of whole numbers: the order doesn't matter" if served else reason
    if site.layout == "fp8":
        return False, "the weight is fp8"
    return True, f"{TILE} rows a product, so that no row depends on the others"


def serves_tiled(site: Site) -> Verdict:
    """Never by itself."""
    return False, "slower, so only by name: for results that don't depend on the batch"
