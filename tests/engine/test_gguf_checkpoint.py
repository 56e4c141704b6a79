"""GGUF files: tiny ones written here, and the demonstration model when it is in the cache."""

from __future__ import annotations

import json
import struct
import time
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from readoff.engine.checkpoint import open_checkpoint
from readoff.engine.errors import CheckpointError
from readoff.engine.fetch import DEMO
from readoff.engine.gguf_checkpoint import GgufCheckpoint
from readoff.engine.gguf_file import GgufFile
from tests.checkpoints import assert_same, contents
from tests.gguf_files import model_metadata, write_gguf
from tests.models import Architecture, tiny_model

EMBEDDING, HEAD = "model.embed_tokens.weight", "lm_head.weight"


@pytest.mark.parametrize("architecture", ["qwen2", "qwen3"])
@pytest.mark.parametrize("kind", ["F32", "F16", "BF16", "Q8_0", "Q5_0", "Q4_1"])
@pytest.mark.parametrize("tied", [True, False])
def test_gives_back_what_was_written(
    tmp_path: Path, architecture: Architecture, kind: str, tied: bool
) -> None:
    model = tiny_model(architecture, layers=2, tied=tied)
    expected = write_gguf(tmp_path / "m.gguf", model, default=kind)
    checkpoint = open_checkpoint(tmp_path / "m.gguf")
    assert_same(contents(checkpoint), expected)
    config = checkpoint.config
    assert config.architecture == architecture
    assert config.tie_word_embeddings == tied
    assert config.rms_norm_eps == 1e-6
    assert config.rope_theta == 10_000.0
    assert config.head_dim == config.rotary_dim == (32 if architecture == "qwen3" else 16)


def test_row_blocks_end_anywhere(tmp_path: Path) -> None:
    expected = write_gguf(tmp_path / "m.gguf", tiny_model("qwen2", layers=1), default="Q5_0")
    checkpoint = open_checkpoint(tmp_path / "m.gguf")
    for start, stop in [(0, 1), (3, 10), (511, 512), (0, 512)]:
        assert torch.equal(
            checkpoint.read_rows(EMBEDDING, start, stop), expected[EMBEDDING][start:stop]
        )
    assert checkpoint.read_rows("model.norm.weight", 5, 9).shape == (4,)


# ---- heads


def two_copies(path: Path, embedding: str, head: str) -> dict[str, torch.Tensor]:
    """A tied model as converters write it: one matrix, quantised twice."""
    model = tiny_model("qwen2", layers=1)
    output = model.get_parameter(EMBEDDING)
    kinds = {EMBEDDING: embedding, HEAD: head}
    found = write_gguf(path, model, kinds=kinds, extra={"output.weight": output})
    return found | {HEAD: found.pop("output.weight")}


def test_auto_ties_two_copies_and_keeps_the_finer(tmp_path: Path) -> None:
    written = two_copies(tmp_path / "m.gguf", "Q5_0", "Q8_0")
    found = contents(GgufCheckpoint(tmp_path / "m.gguf"))
    assert HEAD not in found
    assert torch.equal(found[EMBEDDING], written[HEAD])
    written = two_copies(tmp_path / "n.gguf", "F16", "Q8_0")
    found = contents(GgufCheckpoint(tmp_path / "n.gguf"))
    assert torch.equal(found[EMBEDDING], written[EMBEDDING])


def test_untie_keeps_both_as_stored(tmp_path: Path) -> None:
    written = two_copies(tmp_path / "m.gguf", "Q5_0", "Q8_0")
    checkpoint = GgufCheckpoint(tmp_path / "m.gguf", head="untie")
    assert not checkpoint.config.tie_word_embeddings
    assert_same(contents(checkpoint), written)


def test_auto_leaves_two_matrices_apart_and_tie_forces_them(tmp_path: Path) -> None:
    model = tiny_model("qwen2", layers=1, tied=False)
    kinds = {EMBEDDING: "Q5_0", HEAD: "Q8_0"}
    written = write_gguf(tmp_path / "m.gguf", model, kinds=kinds)
    assert_same(contents(GgufCheckpoint(tmp_path / "m.gguf")), written)
    found = contents(GgufCheckpoint(tmp_path / "m.gguf", head="tie"))
    assert HEAD not in found
    assert torch.equal(found[EMBEDDING], written[HEAD])


def test_digest_tells_heads_apart_but_not_the_file(tmp_path: Path) -> None:
    two_copies(tmp_path / "m.gguf", "Q5_0", "Q8_0")
    auto, untied = (GgufCheckpoint(tmp_path / "m.gguf", head=head) for head in ("auto", "untie"))
    assert auto.weights_digest() == untied.weights_digest() == auto.digest()
    assert auto.digest() != untied.digest()


# ---- broken and foreign files


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("gguf") / "m.gguf"
    write_gguf(path, tiny_model("qwen2", layers=1), default="Q8_0")
    return path.read_bytes()


@given(share=st.floats(0, 1, exclude_max=True))
@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_a_truncated_file_is_an_error(tmp_path: Path, sound: bytes, share: float) -> None:
    path = tmp_path / "cut.gguf"
    path.write_bytes(sound[: int(share * len(sound))])
    with pytest.raises(CheckpointError, match=r"cut\.gguf can't be read.*[Dd]ownload"):
        GgufFile(path)


@given(data=st.data())
@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_damaged_headers_never_crash(tmp_path: Path, sound: bytes, data: st.DataObject) -> None:
    broken = bytearray(sound)
    for _ in range(data.draw(st.integers(1, 4))):
        broken[data.draw(st.integers(0, 3000))] = data.draw(st.integers(0, 255))
    path = tmp_path / "damaged.gguf"
    path.write_bytes(broken)
    try:
        open_checkpoint(path)
    except CheckpointError as error:
        assert "damaged.gguf" in str(error)  # noqa: PT017 (a change may also do no harm)


@pytest.mark.parametrize(
    "text", [b"", b"GGUF", b"PK\x03\x04" + b"x" * 99, b"GGUF" + struct.pack(">IQQ", 3, 1, 1)]
)
def test_other_files(tmp_path: Path, text: bytes) -> None:
    (tmp_path / "x.gguf").write_bytes(text)
    with pytest.raises(CheckpointError, match="not a GGUF"):
        open_checkpoint(tmp_path / "x.gguf")


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        ({"general.architecture": "llama"}, "'llama' can't be read"),
        ({"general.architecture": "qwen2moe"}, "'qwen2moe'"),
        ({"qwen2.block_count": None}, "num_hidden_layers"),
        ({"qwen2.embedding_length": None}, "hidden_size"),
        ({"qwen2.rope.freq_base": None}, "rope_theta"),
        ({"qwen2.attention.layer_norm_rms_epsilon": None}, "rms_norm_eps"),
        ({"qwen2.rope.scaling.type": "yarn"}, "'yarn'"),
        ({"qwen2.rope.dimension_count": 8}, "partial"),
        ({"qwen2.attention.value_length": 32}, "different sizes"),
        ({"qwen2.expert_count": 8}, "MoE"),
        ({"split.count": 3}, "gguf-split"),
        ({"qwen2.block_count": 2}, "missing"),
        ({"qwen2.feed_forward_length": 128}, "shape"),
    ],
)
def test_refuses_foreign_models(tmp_path: Path, metadata: dict[str, Any], message: str) -> None:
    write_gguf(tmp_path / "m.gguf", tiny_model("qwen2", layers=1), metadata=metadata)
    with pytest.raises(CheckpointError, match=message):
        open_checkpoint(tmp_path / "m.gguf")


def test_refuses_unknown_tensors_and_types(tmp_path: Path) -> None:
    model = tiny_model("qwen2", layers=1)
    write_gguf(tmp_path / "m.gguf", model, extra={"rope_freqs.weight": torch.ones(8)})
    with pytest.raises(CheckpointError, match=r"rope_freqs\.weight is unknown"):
        open_checkpoint(tmp_path / "m.gguf")
    writer = gguf.GGUFWriter(tmp_path / "n.gguf", "qwen2")
    for key, value in model_metadata(model).items():
        if isinstance(value, int):
            writer.add_uint32(key, value)
    writer.add_tensor("token_embd.weight", torch.zeros(4, 8, dtype=torch.int32).numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    with pytest.raises(CheckpointError, match=r"token_embd\.weight has the unreadable type I32"):
        open_checkpoint(tmp_path / "n.gguf")


def test_arrays_nested_without_end(tmp_path: Path) -> None:
    key = struct.pack("<Q", 1) + b"k" + struct.pack("<I", 9)
    levels = struct.pack("<IQ", 9, 1) * 5000 + struct.pack("<IQ", 0, 0)
    header = b"GGUF" + struct.pack("<IQQ", 3, 0, 1)
    (tmp_path / "x.gguf").write_bytes(header + key + levels)
    with pytest.raises(CheckpointError, match=r"x\.gguf can't be read as GGUF \(arrays nested"):
        open_checkpoint(tmp_path / "x.gguf")


@pytest.mark.parametrize("name", ["token_embd.weight", "output.weight"])
def test_tensors_without_rows(tmp_path: Path, name: str) -> None:
    model = tiny_model("qwen2", layers=1)
    rows = {"token_embd.weight": model.get_parameter("model.embed_tokens.weight")}
    rows["output.weight"] = rows["token_embd.weight"]
    path = tmp_path / "m.gguf"
    write_gguf(path, model, extra=rows)
    data = bytearray(path.read_bytes())
    at = data.index(struct.pack("<Q", len(name)) + name.encode()) + 8 + len(name)
    data[at + 12 : at + 20] = bytes(8)  # after the number of axes and of columns
    path.write_bytes(data)
    with pytest.raises(CheckpointError, match=rf"the tensor {name} is empty"):
        open_checkpoint(path)


# ---- the demonstration model


@pytest.mark.slow
def test_header_equals_the_gguf_package(demo_checkpoint: Path) -> None:
    file, reader = GgufFile(demo_checkpoint), gguf.GGUFReader(demo_checkpoint)
    assert file.tensors.keys() == {tensor.name for tensor in reader.tensors}
    for tensor in reader.tensors:
        ours = file.tensors[tensor.name]
        assert (ours.offset, ours.nbytes) == (tensor.data_offset, tensor.n_bytes)
        assert list(ours.shape) == tensor.shape.tolist()[::-1]
    for key, value in file.metadata.items():
        assert reader.fields[key].contents() == value


def test_demo_loads_in_seconds(demo_checkpoint: Path) -> None:
    started = time.perf_counter()
    checkpoint = open_checkpoint(demo_checkpoint)
    tensors = contents(checkpoint, torch.bfloat16)
    seconds = time.perf_counter() - started
    print(json.dumps({"gguf_load_s": round(seconds, 2)}))
    assert seconds < 30  # about 2 s where nothing else runs
    assert checkpoint.config.tie_word_embeddings
    assert checkpoint.digest() == DEMO.sha256
    assert sum(tensor.numel() for tensor in tensors.values()) == 494_032_768
    stored = next(t for t in GgufFile(demo_checkpoint).tensors.values() if t.kind == "Q6_K")
    raw = np.fromfile(demo_checkpoint, np.uint8, stored.nbytes, offset=stored.offset)
    label = gguf.GGMLQuantizationType.Q6_K
    expected = gguf.quants.dequantize(raw.reshape(-1, stored.row_bytes), label)
    name = f"model.layers.{stored.name.split('.')[1]}.mlp.down_proj.weight"
    assert torch.equal(tensors[name], torch.from_numpy(expected).bfloat16())
