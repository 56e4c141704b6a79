"""Every block type, bit for bit against the `gguf` package, on all bit patterns that are finite."""

from __future__ import annotations

import gguf
import numpy as np
import pytest
import torch

from readoff.engine.dequantise import dequantise, is_readable

KINDS = ["Q8_0", "Q4_0", "Q5_0", "Q4_K", "Q5_K", "Q6_K", "F16", "BF16", "F32"]
THROUGH_GGUF = ["Q4_1", "Q5_1", "Q2_K", "Q3_K", "IQ4_NL", "IQ4_XS"]


@pytest.mark.parametrize("kind", KINDS + THROUGH_GGUF)
@pytest.mark.parametrize("rows", [1, 3, 64])
def test_equals_gguf(kind: str, rows: int) -> None:
    label = gguf.GGMLQuantizationType[kind]
    block, size = gguf.GGML_QUANT_SIZES[label]
    blocks = 5 if block > 1 else 7
    generator = np.random.default_rng(rows)
    raw = generator.integers(0, 256, (rows, blocks * size), dtype=np.uint8)
    with np.errstate(all="ignore"):  # random bits hold infinities and NaN too
        expected = gguf.quants.dequantize(raw, label)
        found = dequantise(torch.from_numpy(raw), kind)
    assert found.dtype == torch.float32
    assert found.shape == (rows, blocks * block)
    assert np.array_equal(found.numpy(), expected, equal_nan=True)
    assert np.isfinite(expected).mean() > 0.5


@pytest.mark.parametrize("kind", KINDS)
def test_reads_rows_that_lie_apart(kind: str) -> None:
    label = gguf.GGMLQuantizationType[kind]
    size = gguf.GGML_QUANT_SIZES[label][1]
    raw = torch.from_numpy(np.random.default_rng(0).integers(0, 64, (9, 4 * size), dtype=np.uint8))
    assert torch.equal(dequantise(raw[::4], kind), dequantise(raw, kind)[::4])


def test_q8_0_by_hand() -> None:
    block = torch.zeros(1, 34, dtype=torch.uint8)
    block[0, :2] = torch.tensor([0.5], dtype=torch.float16).view(torch.uint8)
    block[0, 2:5] = torch.tensor([1, 255, 128], dtype=torch.uint8)  # 1, -1, -128
    assert dequantise(block, "Q8_0")[0, :4].tolist() == [0.5, -0.5, -64.0, 0.0]


def test_q5_0_by_hand() -> None:
    block = torch.zeros(1, 22, dtype=torch.uint8)
    block[0, :2] = torch.tensor([2.0], dtype=torch.float16).view(torch.uint8)
    block[0, 2] = 0b1  # the fifth bit of value 0
    block[0, 5] = 0b1000_0000  # the fifth bit of value 31
    block[0, 6] = 0x0F  # value 0: 15, value 16: 0
    values = dequantise(block, "Q5_0")[0]
    assert values[0] == 2 * (31 - 16)
    assert values[16] == 2 * (0 - 16)
    assert values[31] == 2 * (16 - 16)


def test_is_readable() -> None:
    assert all(is_readable(kind) for kind in KINDS + THROUGH_GGUF)
    assert not is_readable("I32")
    assert not is_readable("Q8_K")
