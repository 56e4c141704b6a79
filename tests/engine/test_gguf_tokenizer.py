"""The tokenizer that is written out of a GGUF file."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer as Backend

from readoff.engine.checkpoint import open_checkpoint
from readoff.engine.errors import CheckpointError
from readoff.engine.gguf_tokenizer import tokenizer_files, tokenizer_folder
from readoff.engine.tokenizer import Tokenizer
from tests.gguf_files import TEMPLATE, tokenizer_metadata, write_gguf
from tests.models import tiny_model


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("READOFF_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def write(path: Path, **metadata: Any) -> Path:
    write_gguf(path, tiny_model("qwen2", layers=1), metadata=metadata)
    return path


def test_loads_as_any_tokenizer_folder(tmp_path: Path, own_cache: Path) -> None:
    folder = open_checkpoint(write(tmp_path / "m.gguf")).tokenizer_files
    assert folder.is_relative_to(own_cache)
    tokenizer = Tokenizer.load(folder)
    assert tokenizer.encode_text("hello") == (257, ord("l") - 33 + 33, ord("o"))
    assert tokenizer.encode_text("é\n") == (0xC3, 0xA9, 0x0A)
    assert tokenizer.encode_control("<|im_end|>") == (258,)
    assert tokenizer.added_tokens == {"<|im_end|>": 258, "<tool_call>": 259}
    assert 259 not in tokenizer.encode_text("<tool_call>")
    assert tokenizer.chat_template == TEMPLATE
    assert tokenizer.special_tokens["eos_token"] == "<|im_end|>"
    assert tokenizer.special_tokens["pad_token"] == "<|im_end|>"
    assert "bos_token" not in tokenizer.special_tokens
    assert tokenizer.vocab_size == 260  # the padding tokens are not a tokenizer's


def test_special_and_user_defined_tokens_differ() -> None:
    added = tokenizer_files(tokenizer_metadata(), "x")["tokenizer.json"]["added_tokens"]
    assert [(token["content"], token["special"]) for token in added] == [
        ("<|im_end|>", True),
        ("<tool_call>", False),
    ]


def test_text_is_split_as_qwen_splits() -> None:
    files = tokenizer_files(tokenizer_metadata(), "x")
    splits = Backend.from_str(json.dumps(files["tokenizer.json"])).pre_tokenizer
    words = [word for word, _ in splits.pre_tokenize_str("I'll pay 12 €!\n\n  ok")]
    assert words == ["I", "'ll", "Ġpay", "Ġ", "1", "2", "ĠâĤ¬!ĊĊ", "Ġ", "Ġok"]


def test_is_written_once_and_found_again(tmp_path: Path, own_cache: Path) -> None:
    path = write(tmp_path / "m.gguf")
    folder = open_checkpoint(path).tokenizer_files
    before = (folder / "tokenizer.json").stat().st_mtime_ns
    moved = path.rename(tmp_path / "elsewhere.gguf")
    assert open_checkpoint(moved).tokenizer_files == folder
    assert (folder / "tokenizer.json").stat().st_mtime_ns == before
    assert [entry.name for entry in (own_cache / "tokenizers").iterdir()] == [folder.name]


def test_another_file_of_the_same_name_gets_its_own(tmp_path: Path, own_cache: Path) -> None:
    path = tmp_path / "m.gguf"
    first = open_checkpoint(write(path)).tokenizer_files
    second = open_checkpoint(write(path, **{"tokenizer.chat_template": "other"})).tokenizer_files
    assert Tokenizer.load(first).chat_template == TEMPLATE
    assert Tokenizer.load(second).chat_template == "other"


def test_threads_that_write_at_once(tmp_path: Path) -> None:
    path = write(tmp_path / "m.gguf")
    found: list[Path] = []
    threads = [
        threading.Thread(target=lambda: found.append(tokenizer_folder(path, "a" * 64, tmp_path)))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4
    assert len({*found}) == 1
    assert len(list((tmp_path / "tokenizers").iterdir())) == 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"tokenizer.ggml.model": "llama"}, "'llama'"),
        ({"tokenizer.ggml.pre": "deepseek"}, "'deepseek'"),
        ({"tokenizer.ggml.pre": None}, "Hugging Face folder"),
        ({"tokenizer.ggml.tokens": None}, r"ggml\.tokens"),
        ({"tokenizer.ggml.merges": []}, r"ggml\.merges"),
        ({"tokenizer.ggml.token_type": [1, 2]}, "512 tokens but 2"),
        ({"tokenizer.ggml.token_type": [2] * 512}, "type 2"),
        ({"tokenizer.ggml.eos_token_id": 512}, "eos_token_id is 512"),
    ],
)
def test_refuses(change: dict[str, Any], message: str) -> None:
    with pytest.raises(CheckpointError, match=message):
        tokenizer_files(tokenizer_metadata() | change, "m.gguf")


def test_a_cache_that_cannot_be_written(tmp_path: Path) -> None:
    path = write(tmp_path / "m.gguf")
    (tmp_path / "cache").write_text("a file")
    with pytest.raises(CheckpointError, match="READOFF_CACHE"):
        tokenizer_folder(path, "a" * 64, tmp_path / "cache")


def test_the_demonstration_model(demo_checkpoint: Path, own_cache: Path) -> None:
    tokenizer = Tokenizer.load(open_checkpoint(demo_checkpoint).tokenizer_files)
    assert tokenizer.encode_text("Hello world") == (9707, 1879)
    assert tokenizer.encode_control("<|im_start|>user\n") == (151644, 872, 198)
    assert tokenizer.added_tokens["<|im_end|>"] == 151645
    assert tokenizer.special_tokens["eos_token"] == "<|im_end|>"
    assert tokenizer.chat_template is not None
    assert "<|im_start|>" in tokenizer.chat_template
