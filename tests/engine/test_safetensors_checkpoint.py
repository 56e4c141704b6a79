"""Hugging Face folders: whole, sharded, multimodal, and every way for them to be broken."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import PreTrainedModel

from readoff.engine.checkpoint import Checkpoint, digest_files, open_checkpoint, row_blocks
from readoff.engine.errors import CheckpointError
from tests.checkpoints import assert_same, contents
from tests.models import ARCHITECTURES, Architecture, save_multimodal, save_tiny, tiny_model


def assert_holds(checkpoint: Checkpoint, model: PreTrainedModel) -> None:
    assert_same(contents(checkpoint), dict(model.named_parameters()))


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("shard", [None, "100KB"])
def test_gives_back_what_was_saved(
    tmp_path: Path, architecture: Architecture, tied: bool, shard: str | None
) -> None:
    model = save_tiny(tmp_path, architecture, tied=tied, max_shard_size=shard)
    assert len(list(tmp_path.glob("*.safetensors"))) == 1 or shard
    checkpoint = open_checkpoint(tmp_path)
    assert checkpoint.config.tie_word_embeddings == tied
    assert_holds(checkpoint, model)
    assert checkpoint.tokenizer_files == tmp_path
    assert checkpoint.folders == (tmp_path,)


def test_rounds_once_to_any_dtype(tmp_path: Path) -> None:
    model = save_tiny(tmp_path, "qwen2", layers=1)
    for dtype in (torch.bfloat16, torch.float16, torch.float64):
        found = contents(open_checkpoint(tmp_path), dtype)
        for name, tensor in model.named_parameters():
            assert torch.equal(found[name], tensor.to(dtype)), name


def test_reads_a_bf16_folder_exactly(tmp_path: Path) -> None:
    model = save_tiny(tmp_path, "qwen3_5", dtype=torch.bfloat16)
    checkpoint = open_checkpoint(tmp_path)
    assert checkpoint.config.dtype == "bfloat16"
    assert_holds(checkpoint, model.float())


def test_copies_into_a_view_of_something_larger(tmp_path: Path) -> None:
    model = save_tiny(tmp_path, "qwen2", layers=1)
    name = "model.layers.0.mlp.down_proj.weight"
    packed = torch.full((200, 160), float("nan"))
    open_checkpoint(tmp_path).copy_into(name, packed[100:164])
    assert torch.equal(packed[100:164], model.get_parameter(name))
    assert packed[:100].isnan().all()
    assert packed[164:].isnan().all()


def test_refuses_a_destination_that_does_not_fit(tmp_path: Path) -> None:
    save_tiny(tmp_path, "qwen2", layers=1)
    checkpoint = open_checkpoint(tmp_path)
    with pytest.raises(CheckpointError, match=r"\[64\]"):
        checkpoint.copy_into("model.norm.weight", torch.empty(65))
    with pytest.raises(CheckpointError, match="int32"):
        checkpoint.copy_into("model.norm.weight", torch.empty(64, dtype=torch.int32))
    with pytest.raises(CheckpointError, match=r"no tensor lm_head\.weight"):
        checkpoint.shape("lm_head.weight")


@pytest.mark.parametrize(("rows", "width"), [(1, 1), (7, 3), (100, 33), (5, 1000)])
def test_row_blocks_cover_every_row_once(rows: int, width: int) -> None:
    blocks = list(row_blocks((rows, width), limit=99))
    assert [row for start, stop in blocks for row in range(start, stop)] == list(range(rows))
    assert all((stop - start) * width <= 99 or stop - start == 1 for start, stop in blocks)


@pytest.mark.parametrize("tied", [True, False])
def test_a_multimodal_folder_gives_its_text_part(tmp_path: Path, tied: bool) -> None:
    model = tiny_model("qwen3_5", tied=tied)
    save_multimodal(tmp_path, model, tied=tied)
    assert_holds(open_checkpoint(tmp_path), model)


def test_the_older_multimodal_names(tmp_path: Path) -> None:
    model = save_tiny(tmp_path, "qwen3_5", tied=False)
    rewrite(tmp_path, lambda tensors: {f"language_model.{k}": v for k, v in tensors.items()})
    assert_holds(open_checkpoint(tmp_path), model)


# ---- heads


def test_a_tied_folder_with_an_equal_head_is_tied(tmp_path: Path) -> None:
    model = save_tiny(tmp_path, "qwen2")
    embedding = model.get_parameter("model.embed_tokens.weight").detach()
    rewrite(tmp_path, lambda tensors: tensors | {"lm_head.weight": embedding.clone()})
    checkpoint = open_checkpoint(tmp_path)
    assert checkpoint.config.tie_word_embeddings
    assert_holds(checkpoint, model)


def test_a_tied_folder_with_another_head_keeps_it_as_transformers_does(tmp_path: Path) -> None:
    model = save_tiny(tmp_path, "qwen2")
    head = torch.randn(512, 64)
    rewrite(tmp_path, lambda tensors: tensors | {"lm_head.weight": head})
    checkpoint = open_checkpoint(tmp_path)
    assert not checkpoint.config.tie_word_embeddings
    found = contents(checkpoint)
    assert torch.equal(found["lm_head.weight"], head)
    assert_holds(checkpoint, type(model).from_pretrained(tmp_path))


def test_a_tied_folder_may_store_only_the_head(tmp_path: Path) -> None:
    model = save_tiny(tmp_path, "qwen2")
    rewrite(tmp_path, lambda tensors: rename(tensors, "model.embed_tokens.", "lm_head."))
    assert_holds(open_checkpoint(tmp_path), model)


# ---- broken folders


def rename(tensors: dict[str, torch.Tensor], old: str, new: str) -> dict[str, torch.Tensor]:
    return {name.replace(old, new): tensor for name, tensor in tensors.items()}


def rewrite(folder: Path, change: Any) -> None:
    file = folder / "model.safetensors"
    tensors = change(load_file(file))
    save_file(tensors, file, metadata={"format": "pt"})


def sharded(folder: Path) -> dict[str, Any]:
    save_tiny(folder, "qwen2", layers=2, max_shard_size="100KB")
    index: dict[str, Any] = json.loads((folder / "model.safetensors.index.json").read_text())
    return index


def test_a_missing_shard(tmp_path: Path) -> None:
    sharded(tmp_path)
    (tmp_path / "model-00002-of-00005.safetensors").unlink()
    with pytest.raises(CheckpointError, match=r"model-00002-of-00005.*missing.*[Dd]ownload"):
        open_checkpoint(tmp_path)


@pytest.mark.parametrize("keep", [0, 5, 200, -1])
def test_a_truncated_shard(tmp_path: Path, keep: int) -> None:
    sharded(tmp_path)
    shard = tmp_path / "model-00002-of-00005.safetensors"
    shard.write_bytes(shard.read_bytes()[:keep])
    with pytest.raises(CheckpointError, match=r"model-00002-of-00005.*truncated"):
        open_checkpoint(tmp_path)


@pytest.mark.parametrize("file", ["../secret.safetensors", "/etc/passwd", "a\\b", "..", "", 3])
def test_an_index_may_not_point_outside(tmp_path: Path, file: object) -> None:
    index = sharded(tmp_path)
    index["weight_map"]["model.norm.weight"] = file
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(CheckpointError, match=r"model\.norm\.weight points outside"):
        open_checkpoint(tmp_path)


def test_an_index_that_does_not_fit_its_shards(tmp_path: Path) -> None:
    index = sharded(tmp_path)
    index["weight_map"]["model.norm.weight"] = "model-00001-of-00005.safetensors"
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(CheckpointError, match=r"promises model\.norm\.weight"):
        open_checkpoint(tmp_path)
    (tmp_path / "model.safetensors.index.json").write_text("{}")
    with pytest.raises(CheckpointError, match="weight_map"):
        open_checkpoint(tmp_path)


def without(name: str) -> Any:
    return lambda tensors: {key: value for key, value in tensors.items() if key != name}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (without("model.layers.0.mlp.up_proj.weight"), "up_proj.weight is missing"),
        (lambda t: t | {"model.norm.weight": torch.ones(8)}, r"norm.weight has shape \[8\]"),
        (lambda t: t | {"model.norm.bias": torch.ones(64)}, "norm.bias is unknown"),
        (lambda t: t | {"model.norm.weight": torch.ones(64, dtype=torch.int8)}, "dtype I8"),
        (
            lambda t: t | {"model.norm.weight": torch.ones(64).to(torch.float8_e4m3fn)},
            "dtype F8_E4M3",
        ),
        (lambda t: t | {"norm.weight": torch.ones(64)}, "stored twice"),
    ],
)
def test_wrong_tensors(tmp_path: Path, change: Any, message: str) -> None:
    save_tiny(tmp_path, "qwen2", layers=1)
    rewrite(tmp_path, change)
    with pytest.raises(CheckpointError, match=message):
        open_checkpoint(tmp_path)


def test_an_untied_folder_without_its_head(tmp_path: Path) -> None:
    save_tiny(tmp_path, "qwen2", layers=1, tied=False)
    rewrite(tmp_path, without("lm_head.weight"))
    with pytest.raises(CheckpointError, match="isn't tied"):
        open_checkpoint(tmp_path)


def test_a_config_of_another_model(tmp_path: Path) -> None:
    save_tiny(tmp_path, "qwen2", layers=2)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | {"hidden_size": 128}))
    with pytest.raises(CheckpointError, match=r"config\.json belongs"):
        open_checkpoint(tmp_path)


@pytest.mark.parametrize("text", ["", "{", "[1]", "\udcff", "[" * 100_000])
def test_a_config_that_is_no_config(tmp_path: Path, text: str) -> None:
    save_tiny(tmp_path, "qwen2", layers=1)
    (tmp_path / "config.json").write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(CheckpointError, match=r"config\.json"):
        open_checkpoint(tmp_path)


def test_folders_that_hold_no_model(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="doesn't exist"):
        open_checkpoint(tmp_path / "nowhere")
    with pytest.raises(CheckpointError, match=r"no model\.safetensors"):
        open_checkpoint(tmp_path)
    (tmp_path / "pytorch_model.bin").write_bytes(b"cos\nsystem\n")
    with pytest.raises(CheckpointError, match=r"pytorch_model\.bin.*run code"):
        open_checkpoint(tmp_path)
    (tmp_path / "adapter_config.json").write_text("{}")
    with pytest.raises(CheckpointError, match="LoRA adapter"):
        open_checkpoint(tmp_path)


def test_a_missing_config(tmp_path: Path) -> None:
    save_tiny(tmp_path, "qwen2", layers=1)
    (tmp_path / "config.json").unlink()
    with pytest.raises(CheckpointError, match=r"config\.json is missing"):
        open_checkpoint(tmp_path)


# ---- digests


def test_digest_changes_with_the_weights_and_only_with_them(tmp_path: Path) -> None:
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        save_tiny(tmp_path / name, "qwen2", layers=1, seed=seed, max_shard_size="50KB")
    digests = [open_checkpoint(tmp_path / name).digest() for name in "abc"]
    assert digests[0] == digests[1] != digests[2]
    checkpoint = open_checkpoint(tmp_path / "a")
    assert checkpoint.weights_digest() == digests[0]
    assert checkpoint.adapter_digest() is None


def test_digest_of_one_file_is_its_sha256(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"abc")
    assert digest_files([tmp_path / "a"]).startswith("ba7816bf8f01cfea")
    (tmp_path / "b").write_bytes(b"")
    both = digest_files([tmp_path / "b", tmp_path / "a"])
    assert both == digest_files([tmp_path / "a", tmp_path / "b"])
    assert both != digest_files([tmp_path / "a"])
