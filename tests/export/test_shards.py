"""Safetensors files of our own writing, read by the library."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors import safe_open
from safetensors.torch import load_file

from readoff.engine.checkpoint import Checkpoint, open_checkpoint
from readoff.engine.errors import ExportError
from readoff.engine.parameters import parameter_shapes
from readoff.export.shards import DTYPES, Entry, parse_size, plan_shards, write_shards
from tests.checkpoints import assert_same, contents
from tests.models import save_tiny


class Fixed(Checkpoint):
    """Given tensors."""

    def __init__(self, **tensors: torch.Tensor) -> None:
        self.tensors = tensors

    def read_rows(self, name: str, start: int, stop: int) -> torch.Tensor:
        return self.tensors[name][start:stop]

    def digest(self) -> str:
        return ""

    @property
    def folders(self) -> tuple[Path, ...]:
        return ()

    @property
    def tokenizer_files(self) -> Path:
        raise FileNotFoundError


@pytest.mark.parametrize("limit", [1, 100_000, 10**9])
def test_a_checkpoint_comes_back_bit_for_bit(tmp_path: Path, limit: int) -> None:
    save_tiny(tmp_path / "base", "qwen3_5", dtype=torch.bfloat16)
    base = open_checkpoint(tmp_path / "base")
    shapes = parameter_shapes(base.config)
    shards = plan_shards([Entry(name, shapes[name], torch.bfloat16) for name in shapes], limit)
    written: list[tuple[int, int]] = []
    write_shards(tmp_path, shards, base, lambda done, of: written.append((done, of)))
    (tmp_path / "config.json").write_bytes((tmp_path / "base" / "config.json").read_bytes())
    assert_same(contents(open_checkpoint(tmp_path)), contents(base))
    assert len(shards) == {1: len(shapes), 100_000: 7, 10**9: 1}[limit]
    assert written == sorted(written)
    size = sum(shard.nbytes for shard in shards)
    assert written[-1] == (size, size)
    assert all(shard.nbytes <= limit for shard in shards if len(shard.entries) > 1)
    index = tmp_path / "model.safetensors.index.json"
    assert index.exists() == (limit < 10**9)
    if limit == 100_000:
        assert shards[0].file == "model-00001-of-00007.safetensors"
        told = json.loads(index.read_text())
        assert told["metadata"] == {"total_size": size}
        assert told["weight_map"].keys() == shapes.keys()
    for shard in shards:
        with safe_open(tmp_path / shard.file, "pt") as file:
            assert file.metadata() == {"format": "pt"}  # transformers asks for it


def test_mixed_dtypes_are_aligned(tmp_path: Path) -> None:
    odd, wide = torch.randn(3).bfloat16(), torch.randn(5)
    entries = [Entry("odd", (3,), torch.bfloat16), Entry("wide", (5,), torch.float32)]
    write_shards(tmp_path, plan_shards(entries), Fixed(odd=odd, wide=wide))
    data = (tmp_path / "model.safetensors").read_bytes()
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    assert length % 8 == 0
    assert header["wide"]["data_offsets"] == [0, 20]
    assert_same(load_file(tmp_path / "model.safetensors"), {"odd": odd, "wide": wide})


@pytest.mark.parametrize("dtype", DTYPES)
def test_values_that_cannot_be_written(tmp_path: Path, dtype: torch.dtype) -> None:
    shards = plan_shards([Entry("a", (2,), dtype)])
    write_shards(tmp_path, shards, Fixed(a=torch.tensor([1.0, -6e4])))
    for value in (float("nan"), float("inf")):
        with pytest.raises(ExportError, match="a has values that aren't finite"):
            write_shards(tmp_path, shards, Fixed(a=torch.tensor([1.0, value])))


def test_numbers_too_large_for_the_dtype(tmp_path: Path) -> None:
    shards = plan_shards([Entry("a", (2,), torch.float16)])
    with pytest.raises(ExportError, match=r"torch\.float16 can't hold.*wider"):
        write_shards(tmp_path, shards, Fixed(a=torch.tensor([1.0, 7e4])))


@given(
    st.lists(st.integers(1, 50), min_size=1, max_size=30),
    st.integers(1, 120),
)
def test_plans_keep_order_and_limit(sizes: list[int], limit: int) -> None:
    entries = [Entry(f"t{n}", (size,), torch.float32) for n, size in enumerate(sizes)]
    shards = plan_shards(entries, limit)
    assert [entry for shard in shards for entry in shard.entries] == entries
    assert all(shard.nbytes <= limit or len(shard.entries) == 1 for shard in shards)
    for one, two in itertools.pairwise(shards):
        assert one.nbytes + two.entries[0].nbytes > limit  # none was closed too early
    assert len({shard.file for shard in shards}) == len(shards)


@pytest.mark.parametrize(
    ("text", "size"),
    [("5GB", 5 * 10**9), ("1.5 mb", 1_500_000), ("2GiB", 2**31), ("300", 300), ("64K", 64_000)],
)
def test_sizes(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "0", "-1GB", "5TB", "GB", "5 G B", "1e9", "ibs", "3IB"])
def test_no_sizes(text: str) -> None:
    with pytest.raises(ExportError, match="no size of a file"):
        parse_size(text)
