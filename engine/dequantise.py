"""`dequantise`: GGUF blocks to fp32, bit for bit what the `gguf` package computes.

The layouts are ggml's public block formats. The types that Qwen files use are vectorised here in
torch, several times faster than numpy; all others go through `gguf`.

Bits are unpacked eight bytes at a time: rows of bytes are viewed as int64, so one `&` or `>>`
treats eight packed values. The right shift of an int64 drags the sign along; the mask removes it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import torch
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType
from gguf.quants import dequantize

Bytes = torch.Tensor  # uint8

_LOW4 = 0x0F0F0F0F0F0F0F0F
_LOW2 = 0x0303030303030303
_LOW1 = 0x0101010101010101
_BIT4 = 0x1010101010101010
_DIAGONAL = int.from_bytes((1 << i for i in range(8)), "little", signed=True)
_TO_TOP = int.from_bytes((128 - (1 << i) for i in range(8)), "little")


def dequantise(rows: Bytes, kind: str) -> torch.Tensor:
    """uint8 [rows, row_bytes] of the type `kind` (gguf's name) to fp32 [rows, columns].

    Raises NotImplementedError for types that neither this file nor `gguf` can read.
    """
    count = rows.shape[0]
    if kind in _PLAIN:
        return _aligned(rows).view(_PLAIN[kind]).float()
    label = GGMLQuantizationType[kind]
    if kind not in _BLOCKS:
        return torch.from_numpy(dequantize(rows.numpy(), label))
    return _BLOCKS[kind](rows.reshape(-1, GGML_QUANT_SIZES[label][1])).view(count, -1)


@cache
def is_readable(kind: str) -> bool:
    """Whether `dequantise` can read the type `kind`."""
    size = GGML_QUANT_SIZES[GGMLQuantizationType[kind]][1]
    try:  # the package keeps no public list of what it can read: try one block of zeros
        dequantise(torch.zeros(1, size, dtype=torch.uint8), kind)
    except NotImplementedError:
        return False
    return True


def _half(block: Bytes, at: int) -> torch.Tensor:
    """The fp16 number at byte `at` of each block, as fp32 [blocks, 1]."""
    return _aligned(block[:, at : at + 2]).view(torch.float16).float()


def _words(block: Bytes, start: int, stop: int) -> torch.Tensor:
    """Bytes [start, stop) of each block as int64 [blocks, (stop - start) / 8]."""
    return _aligned(block[:, start:stop]).view(torch.int64)


def _aligned(piece: Bytes) -> Bytes:
    """A copy that can be viewed as wider numbers (`contiguous` alone keeps one row's offset)."""
    return piece.clone(memory_format=torch.contiguous_format)


def _q8_0(block: Bytes) -> torch.Tensor:
    # 32 values: scale, 32 signed bytes
    values = block[:, 2:].view(torch.int8).to(torch.float32)
    return values.mul_(_half(block, 0))


def _q4_0(block: Bytes) -> torch.Tensor:
    # 32 values: scale, low nibbles of 16 bytes, then their high nibbles; centred at 8
    packed = _words(block, 2, 18)
    codes = torch.cat((packed & _LOW4, (packed >> 4) & _LOW4), dim=1).view(torch.uint8)
    return codes.float().sub_(8).mul_(_half(block, 0))


def _q5_0(block: Bytes) -> torch.Tensor:
    # as Q4_0, with the fifth bits of the 32 values in four bytes before the nibbles; centred at 16
    packed = _words(block, 6, 22)
    codes = torch.cat((packed & _LOW4, (packed >> 4) & _LOW4), dim=1)
    codes |= _fifth_bits(block[:, 2:6])
    return codes.view(torch.uint8).float().sub_(16).mul_(_half(block, 0))


def _fifth_bits(packed: Bytes) -> torch.Tensor:
    """Bit i of each byte as a 16 in byte i of an int64. (A lookup would be simpler, but torch
    splits even tiny lookups between threads, which stalls on a busy machine.)"""
    spread = (packed.long() * _LOW1) & _DIAGONAL  # byte i is 1 << i or 0
    spread += _TO_TOP  # byte i is now at least 128 exactly if its bit was set
    return (spread >> 3) & _BIT4


def _k_scales(block: Bytes) -> tuple[torch.Tensor, torch.Tensor]:
    """The 6-bit scales and minima of a Q4_K or Q5_K block, in fp32 [blocks, 8, 1] each."""
    first, second, third = block[:, 4:8], block[:, 8:12], block[:, 12:16]
    scales = torch.cat((first & 63, (third & 15) | ((first >> 6) << 4)), dim=1)
    minima = torch.cat((second & 63, (third >> 4) | ((second >> 6) << 4)), dim=1)
    scale = _half(block, 0) * scales.float()
    minimum = _half(block, 2) * minima.float()
    return scale.unsqueeze(2), minimum.unsqueeze(2)


def _q4_k(block: Bytes) -> torch.Tensor:
    # 256 values in 8 groups of 32; each 32 bytes hold one group in low, the next in high nibbles
    packed = _words(block, 16, 144).view(-1, 4, 1, 4)
    codes = torch.cat((packed & _LOW4, (packed >> 4) & _LOW4), dim=2)
    values = codes.view(torch.uint8).view(-1, 8, 32).float()
    scale, minimum = _k_scales(block)
    return values.mul_(scale).sub_(minimum)


def _q5_k(block: Bytes) -> torch.Tensor:
    # as Q4_K; bit g of 32 more bytes is the fifth bit of group g
    packed = _words(block, 48, 176).view(-1, 4, 1, 4)
    codes = torch.cat((packed & _LOW4, (packed >> 4) & _LOW4), dim=2).view(-1, 8, 4)
    fifth = _words(block, 16, 48).unsqueeze(1)
    for group in range(8):
        codes[:, group : group + 1] |= ((fifth >> group) & _LOW1) << 4
    values = codes.view(torch.uint8).view(-1, 8, 32).float()
    scale, minimum = _k_scales(block)
    return values.mul_(scale).sub_(minimum)


def _q6_k(block: Bytes) -> torch.Tensor:
    # 256 values in two halves of four rows of 32: low nibbles of 64 bytes, their high nibbles, and
    # two more bits a value in 32 bytes; 16 signed scales, one for 16 values; centred at 32
    low = _words(block, 0, 128).view(-1, 2, 2, 4)
    high = _words(block, 128, 192).view(-1, 2, 1, 4)
    codes = torch.cat((low & _LOW4, (low >> 4) & _LOW4), dim=2)  # [blocks, half, row, 32 bytes]
    for row in range(4):
        codes[:, :, row : row + 1] |= ((high >> (2 * row)) & _LOW2) << 4
    values = codes.view(torch.uint8).view(-1, 16, 16).float().sub_(32)
    scale = _half(block, 208) * block[:, 192:208].view(torch.int8).float()
    return values.mul_(scale.unsqueeze(2))


_PLAIN = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16, "F64": torch.float64}
_BLOCKS: dict[str, Callable[[Bytes], torch.Tensor]] = {
    "Q8_0": _q8_0,
    "Q4_0": _q4_0,
    "Q5_0": _q5_0,
    "Q4_K": _q4_k,
    "Q5_K": _q5_k,
    "Q6_K": _q6_k,
}
